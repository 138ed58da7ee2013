"""The few fields of a body that routing reads; msgspec skips all others.

`Raw` fields are JSON as the client wrote it, empty when absent: their type is the endpoint's to judge.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct

__all__ = [
    "BatchBody", "ChatBody", "CompletionsBody", "Envelope", "GenerateBody", "InputBody", "LongMessage",
    "LongPart", "Message", "MessagesBody", "PairsBody", "Part", "PartMembers",
    "ResponsesBody", "TemplateBody", "Texts", "TokenId", "TokenizeBody", "Url",
]  # fmt: skip

TokenId = Annotated[int, Meta(ge=0, le=2**32 - 1)]

Texts = str | list[str | TokenId | list[TokenId]] | None
"""One text, texts, the token ids of one prompt, or those of several."""


class Envelope(Struct, gc=False):
    """What every API shares, and what alone is read of a body of unexpected shape."""

    model: str | None = None
    cache_salt: Raw = Raw()
    stream: Raw = Raw()
    max_completion_tokens: Raw = Raw()
    max_tokens: Raw = Raw()
    max_output_tokens: Raw = Raw()
    store: Raw = Raw()
    background: Raw = Raw()
    previous_response_id: Raw = Raw()
    truncate_prompt_tokens: Raw = Raw()
    add_special_tokens: Raw = Raw()


class TemplateBody(Envelope, gc=False):
    """The arguments of a chat template that stand before its messages."""

    chat_template: Raw = Raw()
    chat_template_kwargs: Raw = Raw()
    reasoning_effort: Raw = Raw()
    mm_processor_kwargs: Raw = Raw()
    tools: Raw = Raw()
    documents: Raw = Raw()


class Message(Struct, gc=False):
    """A message of any of the chat APIs; `content` as list holds parts."""

    role: str | None = None
    content: str | list[Raw] | None = None
    name: Raw = Raw()
    tool_call_id: Raw = Raw()
    reasoning: Raw = Raw()
    reasoning_content: Raw = Raw()
    tool_calls: Raw = Raw()


class LongMessage(Struct, gc=False):
    """A message whose content is not decoded in one step."""

    role: str | None = None
    content: Raw = Raw()
    name: Raw = Raw()
    tool_call_id: Raw = Raw()
    reasoning: Raw = Raw()
    reasoning_content: Raw = Raw()
    tool_calls: Raw = Raw()


class ChatBody(TemplateBody, gc=False):
    """`/v1/chat/completions`."""

    messages: list[Message] | None = None


class BatchBody(TemplateBody, gc=False):
    """`/v1/chat/completions/batch`: several conversations."""

    messages: list[list[Message]] | None = None


class CompletionsBody(Envelope, gc=False):
    """`/v1/completions`."""

    prompt: Texts = None


class GenerateBody(Envelope, gc=False):
    """`/inference/v1/generate`: what a render route answered."""

    token_ids: list[TokenId] | None = None
    features: Raw = Raw()


class TokenizeBody(ChatBody, gc=False):
    """`/tokenize`: either form."""

    prompt: str | None = None


class InputBody(ChatBody, gc=False):
    """`/v1/embeddings`, `/pooling`, `/classify`: texts or a conversation."""

    input: Texts = None


class PairsBody(Envelope, gc=False):
    """`/score` and `/rerank`, with the names of several versions: one or more on each side."""

    query: str | list[str] | None = None
    queries: str | list[str] | None = None
    text_1: str | list[str] | None = None
    data_1: str | list[str] | None = None
    documents: str | list[str] | None = None
    text_2: str | list[str] | None = None
    data_2: str | list[str] | None = None


class ResponsesBody(TemplateBody, gc=False):
    """`/v1/responses`; items of `input` are messages, calls, their outputs, reasoning."""

    instructions: str | None = None
    input: str | list[Raw] | None = None


class MessagesBody(TemplateBody, gc=False):
    """`/v1/messages`, Anthropic's."""

    system: str | list[Raw] | None = None
    messages: list[Message] | None = None


class PartMembers(Struct, gc=False):
    """A part of a message's content, without its text."""

    type: str | None = None
    image_url: Raw = Raw()
    video_url: Raw = Raw()
    audio_url: Raw = Raw()
    input_audio: Raw = Raw()
    image_embeds: Raw = Raw()
    audio_embeds: Raw = Raw()
    source: Raw = Raw()
    uuid: Raw = Raw()


class Part(PartMembers, gc=False):
    """A part of a message's content."""

    text: str | None = None


class LongPart(PartMembers, gc=False):
    """A part that is not decoded in one step."""

    text: Raw = Raw()


class Url(Struct, gc=False):
    """`{"url": ...}` of an image, sound or video."""

    url: Raw = Raw()
