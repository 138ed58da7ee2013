"""The Unix socket on which Envoy asks: HTTP/1.1 from a peer that we started ourselves.

No head and no body is limited here: Envoy has limited both before it asks.
"""

import asyncio
from collections.abc import Generator
from typing import cast

import httptools

from epp.gateway.standalone.checks import CheckAnswer, Checks
from epp.http.types import Headers

__all__ = ["CheckProtocol"]


class CheckProtocol(asyncio.Protocol):
    """One connection; Envoy sends the next question when it has the answer to the last."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._target = b""
        self._headers: Headers = []
        self._body: list[bytes] = []
        self._steps: Generator[None, None, CheckAnswer] | None = None
        self._told: int | None = None  # the exchange of the last answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Envoy connected."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Envoy closed, maybe before it has read the answer."""
        self._transport = None
        if self._steps is not None:
            self._steps.close()
        if self._told is not None:
            self._checks.lost(self._told)

    def data_received(self, data: bytes) -> None:
        """Bytes of a question."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.abort()

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        """Another question."""
        self._target, self._headers, self._body, self._told = b"", [], [], None

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """The question is complete."""
        body = b"".join(self._body)
        self._steps = self._checks.check(self._parser.get_method(), self._target, self._headers, body)
        self._advance()

    def _advance(self) -> None:
        """Decide, a step in each turn of the loop."""
        if self._steps is None or self._transport is None:
            return
        try:
            next(self._steps)
        except StopIteration as done:
            self._steps = None
            self._answer(done.value)
        else:
            self._loop.call_soon(self._advance)

    def _answer(self, answer: CheckAnswer) -> None:
        self._told = answer.number
        lines = [b"HTTP/1.1 %d X" % answer.status, b"content-length: %d" % len(answer.body)]
        lines += [b"%b: %b" % header for header in answer.headers]
        if self._transport is not None:
            self._transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + answer.body)
