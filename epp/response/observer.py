"""What a response tells of its cost, read beside the relay."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol

from epp.response.events import EventStreamReader
from epp.response.types import Usage
from epp.response.usage import usage_in_document

__all__ = ["DEFAULT_LIMIT_BYTES", "ResponseObserver"]

DEFAULT_LIMIT_BYTES: Final = 1 << 20
_KNOWN_TYPES: Final = 64


class _Reader(Protocol):
    def feed(self, chunk: bytes) -> None: ...

    def finish(self) -> Usage | None: ...


class ResponseObserver:
    """Looks at the body of one response as it passes; changes nothing and never raises.

    An event stream is read event by event. A JSON answer is kept until its end, so one of more than
    `limit_bytes` (long embeddings, log probabilities of a long text) goes unread, as does an event of that
    size, a body with a content coding, which vLLM never applies, and every other content type.

    Attributes:
        feed: looks at the next piece of the body, cut anywhere.
        finish: the usage that was reported, once the body has ended or broken off; None when none was.
    """

    __slots__ = ("feed", "finish")

    def __init__(
        self, content_type: str | None, content_encoding: str | None, limit_bytes: int = DEFAULT_LIMIT_BYTES
    ) -> None:
        """Choose how to read, by the response's head; `limit_bytes` bounds what is held at any time."""
        reader = _kind(content_type, content_encoding)(limit_bytes)
        self.feed: Callable[[bytes], None] = reader.feed
        self.finish: Callable[[], Usage | None] = reader.finish


@lru_cache(_KNOWN_TYPES)
def _kind(content_type: str | None, content_encoding: str | None) -> Callable[[int], _Reader]:
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if content_encoding and content_encoding.strip().lower() != "identity":
        return _Unread
    return _READERS.get(media_type, _Unread)


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

    def __init__(self, limit_bytes: int) -> None:
        """Hold nothing."""

    def feed(self, chunk: bytes) -> None:
        """Look away."""

    def finish(self) -> Usage | None:
        return None


_READERS: Final[dict[str, Callable[[int], _Reader]]] = {
    "text/event-stream": EventStreamReader,
    "application/json": _DocumentReader,
}
