"""What a response tells of its cost, read beside the relay."""

from typing import Final, Protocol

from epp.response.events import EventStreamReader
from epp.response.types import Usage
from epp.response.usage import usage_in_document

__all__ = ["DEFAULT_LIMIT_BYTES", "ResponseObserver"]

DEFAULT_LIMIT_BYTES: Final = 1 << 20


class _Reader(Protocol):
    def feed(self, chunk: bytes) -> None: ...

    def finish(self) -> Usage | None: ...


class ResponseObserver:
    """Looks at the body of one response as it passes; changes nothing and never raises.

    An event stream is read event by event. A JSON answer is kept until its end, so one of more than
    `limit_bytes` (long embeddings, log probabilities of a long text) goes unread, as does an event of that
    size, a body with a content coding, which vLLM never applies, and every other content type.
    """

    __slots__ = ("_reader",)

    def __init__(
        self, content_type: str | None, content_encoding: str | None, limit_bytes: int = DEFAULT_LIMIT_BYTES
    ) -> None:
        """Choose how to read, by the response's head; `limit_bytes` bounds what is held at any time."""
        self._reader = _reader(content_type or "", content_encoding or "identity", limit_bytes)

    def feed(self, chunk: bytes) -> None:
        """Look at the next piece of the body, cut anywhere."""
        self._reader.feed(chunk)

    def finish(self) -> Usage | None:
        """The usage that was reported, once the body has ended or broken off; None when none was."""
        return self._reader.finish()


def _reader(content_type: str, content_encoding: str, limit_bytes: int) -> _Reader:
    media_type = content_type.partition(";")[0].strip().lower()
    if content_encoding.strip().lower() != "identity":
        return _Unread()
    if media_type == "text/event-stream":
        return EventStreamReader(limit_bytes)
    if media_type == "application/json":
        return _DocumentReader(limit_bytes)
    return _Unread()


class _DocumentReader:
    """Keeps a JSON answer up to a limit and reads it at the end."""

    __slots__ = ("_chunks", "_room_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._chunks: list[bytes] = []
        self._room_bytes = limit_bytes

    def feed(self, chunk: bytes) -> None:
        self._room_bytes -= len(chunk)
        if self._room_bytes >= 0:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()

    def finish(self) -> Usage | None:
        return usage_in_document(b"".join(self._chunks))


class _Unread:
    """A body of which nothing is known."""

    __slots__ = ()

    def feed(self, chunk: bytes) -> None:
        """Look away."""

    def finish(self) -> Usage | None:
        return None
