"""An error of our own as the front door sends it: with the request id, as ASGI parts or as bytes."""

import logging
from dataclasses import dataclass
from http import HTTPStatus

import httptools

from epp.errors import BadRequestError, EppError, InternalError
from epp.http.errors import error_response

__all__ = ["ErrorResponse", "error_in_callback", "render_error"]

logger = logging.getLogger("epp.proxy")

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """A complete answer; header names are lower-case, the content length is among them."""

    status: int
    headers: Headers
    body: bytes

    def as_http11(self, default_headers: Headers) -> bytes:
        """The answer as bytes of HTTP/1.1, `default_headers` (date, server) first."""
        lines = [b"HTTP/1.1 %d %s" % (self.status, HTTPStatus(self.status).phrase.encode())]
        lines += [b"%s: %s" % header for header in (*default_headers, *self.headers)]
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body


def render_error(error: EppError, request_id: bytes, *, close: bool = False) -> ErrorResponse:
    """The answer to `error`. `close` announces the end of the connection, whose input was not read up."""
    status, headers, body = error_response(error)
    headers.append((b"x-request-id", request_id))
    if close:
        headers.append((b"connection", b"close"))
    return ErrorResponse(status, headers, body)


def error_in_callback(exc: httptools.HttpParserCallbackError) -> EppError:
    """Why a callback of the parser raised."""
    cause = exc.__context__
    if isinstance(cause, EppError):
        return cause
    if isinstance(cause, httptools.HttpParserInvalidURLError):
        return BadRequestError("the request target cannot be parsed")
    logger.error("error while reading a request", exc_info=cause)
    return InternalError("internal error")
