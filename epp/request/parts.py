"""Parts of a message's content, in the dialects of OpenAI, vLLM and Anthropic."""

from collections.abc import Generator, Iterable, Sequence
from typing import Final

import msgspec

from epp.request.canonical import PromptBytes, string_bytes
from epp.request.long_json import is_list, is_object, is_string, string_or_none
from epp.request.schema import LongPart, Part, Url

__all__ = ["part_steps", "write_parts"]

_MEDIA: Final = (
    "image_url", "video_url", "audio_url", "input_audio", "image_embeds", "audio_embeds", "source",
)  # fmt: skip
_WHOLE_BYTES: Final = 32_768  # a longer part may hold parts without number
_STEP_PARTS: Final = 512
_TEXT_TYPES: Final = frozenset({None, "text", "input_text", "output_text"})
_NO_PROMPT: Final = "cache_control"  # a mark that clients move from turn to turn; no template reads it

_decode_text = msgspec.json.Decoder(str).decode
_decode_part = msgspec.json.Decoder(Part).decode
_decode_long_part = msgspec.json.Decoder(LongPart).decode
_decode_url = msgspec.json.Decoder(Url).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def write_parts(out: PromptBytes, parts: Iterable[msgspec.Raw], *, may_nest: bool = True) -> None:
    """Text as a string content would be, a medium by its reference, anything else by its members.

    `may_nest`: parts inside a part (the result of a tool) are written as parts too, but none inside those.
    """
    for part in parts:
        if out.is_full:
            return
        for _ in _steps_of(out, part, may_nest=may_nest):
            pass


def part_steps(out: PromptBytes, parts: Sequence[msgspec.Raw]) -> Generator[None, None, None]:
    """`write_parts`, which yields each few hundred parts."""
    for start in range(0, len(parts), _STEP_PARTS):
        if start:
            yield
        batch = parts[start : start + _STEP_PARTS]
        if all(len(part) <= _WHOLE_BYTES for part in batch):
            write_parts(out, batch)
            continue
        for part in batch:
            if not out.is_full:
                if len(part) > out.step_bytes:
                    yield  # that it was found is a step
                yield from _steps_of(out, part, may_nest=True)


def _steps_of(out: PromptBytes, part: msgspec.Raw, *, may_nest: bool) -> Iterable[None]:
    """Write a part; what it holds is written by the steps that are returned."""
    if len(part) > out.step_bytes:
        return _write_long(out, part, may_nest=may_nest)
    raw = bytes(part)
    if raw.startswith(b"{"):
        return _write_object(out, raw, may_nest=may_nest)
    if raw.startswith(b'"'):
        out.text(_decode_text(raw))
    else:
        out.member("", part)
        out.end_part()
    return ()


def _write_object(out: PromptBytes, raw: bytes, *, may_nest: bool) -> Iterable[None]:
    try:
        part = _decode_part(raw)
    except msgspec.ValidationError:
        part = Part()
    if part.text is not None and part.type in _TEXT_TYPES:
        out.text(part.text)
        return ()
    media = [(name, value) for name in _MEDIA if (value := getattr(part, name))]
    if len(media) == 1 and not part.uuid:
        name, value = media[0]
        out.medium(name, _reference(bytes(value)))
        return ()
    return _member_steps(out, raw, may_nest=may_nest)


def _write_long(out: PromptBytes, part: msgspec.Raw, *, may_nest: bool) -> Iterable[None]:
    """The same of a part that is not decoded in one step."""
    raw = memoryview(part)
    if is_object(raw):
        return _write_long_object(out, raw, may_nest=may_nest)
    if is_string(raw):
        out.text_json(raw)
    else:
        out.member("", part)
        out.end_part()
    return ()


def _write_long_object(out: PromptBytes, raw: memoryview, *, may_nest: bool) -> Iterable[None]:
    try:
        part = _decode_long_part(raw)
        text = string_or_none(part.text)
    except msgspec.ValidationError:
        part, text = LongPart(), None
    if text is not None and part.type in _TEXT_TYPES:
        out.text_json(text)
        return ()
    media = [(name, value) for name in _MEDIA if (value := getattr(part, name))]
    if len(media) == 1 and not part.uuid:
        name, value = media[0]
        out.long_medium(name, _long_reference(memoryview(value)))
        return ()
    return _member_steps(out, raw, may_nest=may_nest)


def _member_steps(
    out: PromptBytes, raw: bytes | memoryview, *, may_nest: bool
) -> Generator[None, None, None]:
    for name, value in _decode_members(raw).items():
        if out.is_full:
            break
        if may_nest and name == "content" and is_list(memoryview(value)):
            out.nested(name)
            inner = _decode_list(value)
            for start in range(0, len(inner), _STEP_PARTS):
                if start:
                    yield
                write_parts(out, inner[start : start + _STEP_PARTS], may_nest=False)
            out.end_part()
        elif name != _NO_PROMPT:
            out.member(name, value)
    out.end_part()


def _reference(raw: bytes) -> bytes:
    """The URL of `"URL"` and of `{"url": "URL"}`, which servers take alike; other JSON as it is."""
    if raw.startswith(b"{"):
        url = bytes(_decode_url(raw).url)
        raw = url if url.startswith(b'"') else raw
    return string_bytes(raw) if raw.startswith(b'"') else raw


def _long_reference(raw: memoryview) -> memoryview:
    """The JSON of the same."""
    if is_object(raw):
        url = _decode_url(raw).url
        if url and is_string(memoryview(url)):
            return memoryview(url)
    return raw
