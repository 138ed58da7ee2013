"""The few fields of a body that routing reads; msgspec skips all others.

`Raw` fields are JSON as the client wrote it, empty when absent: their type is the endpoint's to judge.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct

__all__ = ["ChatBody", "CompletionsBody", "Envelope", "Message", "Part", "TokenId", "Url"]

TokenId = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Envelope(Struct, gc=False):
    """What every generating API shares."""

    model: str | None = None
    cache_salt: Raw = Raw()
    stream: Raw = Raw()
    max_completion_tokens: Raw = Raw()
    max_tokens: Raw = Raw()
    store: Raw = Raw()
    background: Raw = Raw()
    truncate_prompt_tokens: Raw = Raw()
    add_special_tokens: Raw = Raw()


class Message(Struct, gc=False):
    """A chat message; `content` as list holds parts."""

    role: str = ""
    content: str | list[Raw] | None = None
    name: Raw = Raw()
    tool_call_id: Raw = Raw()
    reasoning: Raw = Raw()
    reasoning_content: Raw = Raw()
    tool_calls: Raw = Raw()


class ChatBody(Envelope, gc=False):
    """`/v1/chat/completions`."""

    messages: list[Message] | None = None
    chat_template: Raw = Raw()
    chat_template_kwargs: Raw = Raw()
    reasoning_effort: Raw = Raw()
    mm_processor_kwargs: Raw = Raw()
    tools: Raw = Raw()
    documents: Raw = Raw()


class CompletionsBody(Envelope, gc=False):
    """`/v1/completions`; a list holds texts, token ids or lists of token ids."""

    prompt: str | list[str | TokenId | list[TokenId]] | None = None


class Part(Struct, gc=False):
    """A part of a message's content."""

    type: str | None = None
    text: str | None = None
    image_url: Raw = Raw()
    video_url: Raw = Raw()
    audio_url: Raw = Raw()
    input_audio: Raw = Raw()
    image_embeds: Raw = Raw()
    audio_embeds: Raw = Raw()
    uuid: Raw = Raw()


class Url(Struct, gc=False):
    """`{"url": ...}` of an image, sound or video."""

    url: Raw = Raw()
