"""What Envoy asks before it sends a request: HTTP/1.1 requests, one after the other, cut anywhere.

Not a parser for whoever connects: the peer is an Envoy that we started. It writes each header as
`name: value` with its name in lower case, frames bodies by `content-length`, and asks again when it has its
answer.
"""

from typing import NamedTuple

__all__ = ["Question", "QuestionReader"]


class Question(NamedTuple):
    """A request as the client sent it; repeated headers are joined as RFC 9110 section 5.3 allows."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class QuestionReader:
    """Takes pieces of one connection and gives questions."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._start = 0  # where the body begins
        self._needed = 0  # length of head and body, 0 as long as the head is not complete

    def feed(self, data: bytes) -> Question | None:
        """The question that `data` completes, None if there is none.

        Raises:
            ValueError: this is no question of Envoy's.
        """
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return None
        whole = data if len(self._pieces) == 1 else b"".join(self._pieces)
        if self._head is None and not self._read_head(whole):
            self._pieces = [whole]
            return None
        return self._take(whole)

    def _read_head(self, whole: bytes) -> bool:
        """Whether the head is there, and the body too."""
        end = whole.find(b"\r\n\r\n")
        if end < 0:
            return False
        self._head = _parse(whole[:end])
        headers = self._head[2]
        if "transfer-encoding" in headers:
            raise ValueError("a body without a length")
        self._start = end + 4
        self._needed = self._start + int(headers.get("content-length", "0"))
        return self._size >= self._needed

    def _take(self, whole: bytes) -> Question:
        if self._head is None or self._size > self._needed:
            raise ValueError("a question before the last was answered")
        question = Question(*self._head, whole[self._start :])
        self._pieces, self._size, self._head, self._needed = [], 0, None, 0
        return question


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return method, target, headers
