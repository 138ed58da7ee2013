"""Envoy's access log: one JSON object a line, cut anywhere when it is read."""

from typing import Final

import msgspec

__all__ = ["AccessLine", "LineReader"]

_LONGEST: Final = 1 << 16


class AccessLine(msgspec.Struct, gc=False):
    """What became of one request; what Envoy does not know is None.

    `served` is the address that answered, a path where that is this process; `first_ms` the time to the first
    byte of its answer; `flags` are Envoy's (DC: the client left, UF: no connection, …).
    """

    exchange: int | None = None
    status: int | None = None
    flags: str | None = None
    served: str | None = None
    first_ms: float | None = None
    bytes: int = 0
    attempts: int | None = None
    prompt: float | None = None
    completion: float | None = None
    cached: float | None = None

    @property
    def sent(self) -> bool:
        """The request went to an endpoint."""
        return self.served is not None and not self.served.startswith("/")


class LineReader:
    """Takes pieces and gives lines; a line that cannot be read is passed over."""

    def __init__(self) -> None:
        self._rest = b""
        self._decode = msgspec.json.Decoder(AccessLine, strict=False).decode  # the exchange comes as text
        self.unread = 0

    def feed(self, data: bytes) -> list[AccessLine]:
        """The lines that `data` completes."""
        *complete, rest = (self._rest + data).split(b"\n")
        self._rest = rest if len(rest) <= _LONGEST else b""
        lines: list[AccessLine] = []
        for text in complete:
            try:
                lines.append(self._decode(text))
            except msgspec.DecodeError:
                self.unread += 1
        return lines
