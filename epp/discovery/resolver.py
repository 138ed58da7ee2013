"""Looking names up: what discovery asks for, whoever answers."""

from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["Answer", "LookupFailedError", "Record", "RecordKind", "Resolver"]

RecordKind = Literal["A", "AAAA", "SRV"]


@dataclass(frozen=True, slots=True)
class Record:
    """One record: the address of A and AAAA; target and port of SRV."""

    host: str
    port: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of a name. No records: it does not exist, or has none of the kind.

    `ttl_s` is the smallest on the way to the records; None: nobody told.
    """

    records: tuple[Record, ...] = ()
    ttl_s: float | None = None


class LookupFailedError(Exception):
    """Nobody could tell (no answer in time, SERVFAIL, no server); says why, in one line."""


class Resolver(Protocol):
    """Looks names up."""

    async def look_up(self, name: str, kind: RecordKind) -> Answer:
        """All records of a kind.

        Raises:
            LookupFailedError: nobody could tell.
        """
        ...
