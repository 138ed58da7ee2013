"""Bodies to prompts: which fields of each API become which bytes."""

from array import array
from typing import Final

import msgspec

from epp.request.canonical import PART, ROLE, TEXT, fields, medium, string_bytes
from epp.request.schema import ChatBody, CompletionsBody, Message, Part, Url
from epp.request.types import Prompt

__all__ = ["chat_prompts", "completions_prompts"]

_TEMPLATE_ARGUMENTS: Final = (
    "chat_template",
    "chat_template_kwargs",
    "reasoning_effort",
    "add_special_tokens",
    "mm_processor_kwargs",
    "tools",
    "documents",
)
_BEFORE_CONTENT: Final = ("name", "tool_call_id", "reasoning", "reasoning_content")
_MEDIA: Final = ("image_url", "video_url", "audio_url", "input_audio", "image_embeds", "audio_embeds")
_TEXT_PARTS: Final = frozenset({None, "text", "input_text", "output_text"})

_decode_part = msgspec.json.Decoder(Part).decode
_decode_url = msgspec.json.Decoder(Url).decode


def chat_prompts(body: ChatBody) -> tuple[Prompt, ...]:
    """One prompt: the template's arguments, then the messages in order."""
    if not body.messages:
        return ()
    chunks = fields((name, getattr(body, name)) for name in _TEMPLATE_ARGUMENTS)
    for message in body.messages:
        _write_message(chunks, message)
    return (Prompt(b"".join(chunks)),)


def _write_message(chunks: list[bytes], message: Message) -> None:
    chunks += (message.role.encode(), ROLE)
    if message.name or message.tool_call_id or message.reasoning or message.reasoning_content:
        chunks += fields((name, getattr(message, name)) for name in _BEFORE_CONTENT)
    if isinstance(message.content, str):
        chunks += (message.content.encode(), TEXT)
    elif message.content is not None:
        for part in message.content:
            chunks += _part_chunks(bytes(part))
    if message.tool_calls:
        chunks += fields([("tool_calls", message.tool_calls)])


def _part_chunks(raw: bytes) -> tuple[bytes, ...]:
    """Text as a string content would be, a medium by its reference, anything else as its JSON."""
    if raw.startswith(b'"'):
        return string_bytes(raw), TEXT
    try:
        part = _decode_part(raw)
    except msgspec.ValidationError:
        return raw, PART
    if part.text is not None and part.type in _TEXT_PARTS:
        return part.text.encode(), TEXT
    media = [(name, value) for name in _MEDIA if (value := getattr(part, name))]
    if len(media) != 1 or part.uuid:
        return raw, PART
    name, value = media[0]
    return (medium(name, _reference(bytes(value))),)


def _reference(raw: bytes) -> bytes:
    """The URL of `"URL"` and of `{"url": "URL"}`, which servers take alike; other JSON as it is."""
    if raw.startswith(b"{"):
        url = bytes(_decode_url(raw).url)
        raw = url if url.startswith(b'"') else raw
    return string_bytes(raw) if raw.startswith(b'"') else raw


def completions_prompts(body: CompletionsBody) -> tuple[Prompt, ...]:
    """One prompt an element: a text as its UTF-8 bytes, which need no end, or token ids alone."""
    special = b"".join(fields([("add_special_tokens", body.add_special_tokens)]))
    prompts = [
        Prompt(special + item.encode()) if isinstance(item, str) else Prompt(array("I", item).tobytes(), True)
        for item in _elements(body.prompt)
        if item
    ]
    return tuple(prompts)


def _elements(prompt: str | list[str | int | list[int]] | None) -> list[str | list[int]]:
    if isinstance(prompt, str):
        return [prompt]
    ids, others = [], []
    for item in prompt or ():
        if isinstance(item, int):
            ids.append(item)
        else:
            others.append(item)
    return others or [ids]
