"""Answers that speak for the whole endpoint, not for one request."""

from typing import Final

import msgspec

__all__ = ["is_engine_down"]

_MARKS: Final = (
    "cannot schedule new futures after shutdown",  # draining: probes stay 200 meanwhile
    "enginecore encountered an issue",  # the engine's process has died
)


class _Error(msgspec.Struct, gc=False):
    message: str = ""


class _Body(msgspec.Struct, gc=False):
    error: _Error


_decode = msgspec.json.Decoder(_Body).decode


def is_engine_down(status: int, body: bytes) -> bool:
    """Whether vLLM says that it drains or that its engine is dead, so that no request to it can succeed.

    Both come as 500 with an error object and are told from other 500s by its message alone, as recorded from
    vLLM 0.32. `body` is the whole body without a content coding.
    """
    if status != 500:
        return False
    try:
        message = _decode(body).error.message.lower()
    except (ValueError, RecursionError):
        return False
    return any(mark in message for mark in _MARKS)
