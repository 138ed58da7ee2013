"""An `EppError` as an HTTP answer: JSON that both OpenAI's and Anthropic's clients read, and its headers."""

from typing import Final

import msgspec

from epp.errors import EppError

__all__ = ["error_response"]

DROPPED_REASON: Final = b"x-llm-d-request-dropped-reason"

_encoder: Final = msgspec.json.Encoder()


def error_response(error: EppError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers (content type and length among them) and body; the caller adds the request id.

    One body for both kinds of clients: Anthropic's find `type` beside `error` and in it `type` and `message`,
    OpenAI's look into `error` alone.
    """
    body = _encoder.encode(
        {
            "error": {
                "message": error.message,
                "type": error.type,
                "param": error.param,
                "code": error.code,
            },
            "type": "error",
        }
    )
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    if error.reason is not None:
        headers.append((DROPPED_REASON, error.reason.encode("ascii")))
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode("ascii")))
    if error.challenge is not None:
        headers.append((b"www-authenticate", error.challenge.encode("ascii")))
    return error.status, headers, body
