"""Token counts from what an endpoint says, whatever it says.

Three dialects stand in the same place and differ in names:

- OpenAI: `prompt_tokens`, `completion_tokens`, `prompt_tokens_details.cached_tokens`;
- OpenAI Responses: `input_tokens`, `output_tokens`, `input_tokens_details.cached_tokens`;
- Anthropic: `input_tokens` without the tokens that the cache gave or took, which stand in
  `cache_read_input_tokens` and `cache_creation_input_tokens`; `output_tokens`.
"""

from typing import Annotated, Any, Final

import msgspec

from epp.response.types import Usage

__all__ = ["merge_usage", "usage_in_document", "usage_of"]

_MAX_DIGITS: Final = 15  # no request has more tokens
_MAX_COUNT: Final = 10**_MAX_DIGITS - 1

_Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COUNT)]


class _Details(msgspec.Struct, gc=False):
    cached_tokens: _Count | None = None


class _Counts(msgspec.Struct, gc=False):
    """Of an answer in OpenAI's dialect, as nearly all are: read without a dictionary."""

    prompt_tokens: _Count
    completion_tokens: _Count
    prompt_tokens_details: _Details | None = None
    input_tokens_details: None = None
    cache_read_input_tokens: None = None
    cache_creation_input_tokens: None = None


class _Answer(msgspec.Struct, gc=False):
    usage: _Counts | None = None


class _Document(msgspec.Struct, gc=False):
    """Where usage stands: at the top, in Anthropic's `message_start`, in the Responses API's last event."""

    usage: msgspec.Raw = msgspec.Raw()
    message: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode = msgspec.json.Decoder(_Document).decode


def usage_in_document(document: bytes) -> Usage | None:
    """The usage of one JSON answer or event; None when there is none, or the document is broken."""
    try:
        counts = _decode_answer(document).usage
    except (ValueError, RecursionError):
        counts = None
    if counts is None:
        return _any_usage(document)
    details = counts.prompt_tokens_details
    cached_tokens = None if details is None else details.cached_tokens
    return Usage(counts.prompt_tokens, counts.completion_tokens, cached_tokens)


def _any_usage(document: bytes) -> Usage | None:
    """The same in any dialect, with counts that are none."""
    try:
        found = _decode(document)
        for holder in (found.message, found.response):
            if bytes(holder).startswith(b"{") and not found.usage:
                found = _decode(holder)
        return usage_of(msgspec.json.decode(found.usage)) if found.usage else None
    except (ValueError, RecursionError):
        return None


def usage_of(reported: object) -> Usage | None:
    """Valid counts of a decoded usage object; None when it has none.

    A count is a non-negative int, or a string of digits; anything else counts as not reported.
    """
    if not isinstance(reported, dict):
        return None
    usage = Usage(
        prompt_tokens=_prompt_tokens(reported),
        completion_tokens=_either(reported, "completion_tokens", "output_tokens"),
        cached_tokens=_cached_tokens(reported),
    )
    return None if usage == Usage() else usage


def merge_usage(earlier: Usage | None, later: Usage | None) -> Usage | None:
    """Two reports of one response: counts are running totals, so the larger one holds."""
    if earlier is None or later is None:
        return earlier or later
    return Usage(
        prompt_tokens=_larger(earlier.prompt_tokens, later.prompt_tokens),
        completion_tokens=_larger(earlier.completion_tokens, later.completion_tokens),
        cached_tokens=_larger(earlier.cached_tokens, later.cached_tokens),
    )


def _prompt_tokens(reported: dict[Any, Any]) -> int | None:
    """The whole prompt; Anthropic's input leaves out what the cache read and wrote."""
    tokens = _either(reported, "prompt_tokens", "input_tokens")
    if tokens is None:
        return None
    read = _count(reported.get("cache_read_input_tokens")) or 0
    written = _count(reported.get("cache_creation_input_tokens")) or 0
    return tokens + read + written


def _cached_tokens(reported: dict[Any, Any]) -> int | None:
    for name in ("prompt_tokens_details", "input_tokens_details"):
        details = reported.get(name)
        if isinstance(details, dict):
            return _count(details.get("cached_tokens"))
    return _count(reported.get("cache_read_input_tokens"))


def _either(reported: dict[Any, Any], name: str, other_name: str) -> int | None:
    count = _count(reported.get(name))
    return _count(reported.get(other_name)) if count is None else count


def _count(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS:
        return int(value)
    return value if type(value) is int and 0 <= value <= _MAX_COUNT else None  # a bool is no count


def _larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
