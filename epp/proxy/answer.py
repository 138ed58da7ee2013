"""One execution's answer as it comes: written by the pool, read by the request's coroutine."""

import asyncio
from typing import Final

from epp.director import Target
from epp.http import ResponseHead, UpstreamExchange, UpstreamFailure

__all__ = ["BUFFER_LIMIT", "Answer"]

# Above it the endpoint is no longer read; also the largest error body that is kept for a later decision.
BUFFER_LIMIT: Final = 65_536


class Answer:
    """A response sink with a bounded buffer.

    Attributes:
        target: the endpoint.
        buffered_bytes: body that came and was not taken.
        ended: the body is complete.
        failure: why it will not be complete.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._head: ResponseHead | None = None
        self.buffered_bytes = 0
        self.ended = False
        self.failure: UpstreamFailure | None = None
        self._chunks: list[bytes] = []
        self._paused = False
        self._news = asyncio.Event()
        self._upstream: UpstreamExchange | None = None

    def attach(self, upstream: UpstreamExchange) -> None:
        """Say which exchange fills this answer."""
        self._upstream = upstream

    @property
    def has_head(self) -> bool:
        """The head came."""
        return self._head is not None

    @property
    def head(self) -> ResponseHead:
        """The head, once it came."""
        if self._head is None:
            raise AssertionError("the head has not come")
        return self._head

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return self.ended or self.failure is not None

    def on_head(self, head: ResponseHead) -> None:
        """The pool: the final head came."""
        self._head = head
        self._news.set()

    def on_data(self, data: bytes) -> None:
        """The pool: bytes of the body came."""
        self._chunks.append(data)
        self.buffered_bytes += len(data)
        if self.buffered_bytes > BUFFER_LIMIT and not self._paused and self._upstream is not None:
            self._paused = True
            self._upstream.pause()
        self._news.set()

    def on_end(self) -> None:
        """The pool: the response is complete."""
        self.ended = True
        self._upstream = None
        self._news.set()

    def on_failure(self, failure: UpstreamFailure) -> None:
        """The pool: the response will not be complete."""
        self.failure = failure
        self._upstream = None
        self._news.set()

    async def news(self) -> None:
        """Wait for something that was not there when this was last called."""
        await self._news.wait()
        self._news.clear()

    def body(self) -> bytes:
        """What is buffered, without taking it."""
        return b"".join(self._chunks)

    def take(self) -> bytes:
        """What is buffered, as one piece; the endpoint is read again."""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self.buffered_bytes = 0
        if self._paused and self._upstream is not None:
            self._paused = False
            self._upstream.resume()
        return data

    def abort(self) -> None:
        """Close the endpoint's connection unless the answer is over."""
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
