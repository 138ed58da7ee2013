"""The shadow state of an endpoint: what this router has sent there and what that keeps it busy with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from epp.scheduling.producers.latency import Work

__all__ = ["EndpointFlights", "Flight", "Room", "common_blocks"]

_START_ITL_S: Final = 0.025
_WEIGHT: Final = 0.05


@dataclass(slots=True, eq=False)
class Flight:
    """One request on its way.

    Attributes:
        slot: of its endpoint.
        sent_s: when it was picked.
        work: what its prompt asks for.
        prefill_s: how long that was predicted to take.
        clear: nothing was in its way when it was sent, so that its first token teaches what the work takes.
        tokens: prompt and expected answer, in KV tokens.
        chain: of its first prompt, as in the cycle.
        overlaps: by key of a request that was there before, the tokens that both hold.
        first_token_s: when its first token came.
    """

    slot: int
    sent_s: float
    work: Work
    prefill_s: float
    clear: bool
    tokens: float
    chain: Sequence[int] = ()
    overlaps: Mapping[int, float] = field(default_factory=dict)
    first_token_s: float | None = None


def common_blocks(one: Sequence[int], other: Sequence[int]) -> int:
    """Leading blocks that two chains share: equal hashes mean equal prefixes, so bisection finds the end."""
    if not one or not other or one[0] != other[0]:
        return 0
    same, most = 1, min(len(one), len(other))
    if one[most - 1] == other[most - 1]:
        return most
    while same < most - 1:
        middle = (same + most) // 2
        if one[middle - 1] == other[middle - 1]:
            same = middle
        else:
            most = middle
    return same


@dataclass(frozen=True, slots=True)
class Room:
    """KV tokens that requests of an endpoint need, what they share counted once; who ends when."""

    held_tokens: float
    ends: tuple[tuple[float, float], ...]

    def wait_s(self, needed: float, capacity: float) -> float:
        """Seconds until `needed` tokens of `capacity` are free; the last end where they never are."""
        free = capacity - self.held_tokens
        if free >= needed:
            return 0.0
        last_s = 0.0
        for seconds, tokens in sorted(self.ends):
            last_s = seconds
            free += tokens
            if free >= needed:
                break
        return last_s


@dataclass(slots=True)
class EndpointFlights:
    """All of one endpoint, in the order they were sent."""

    flights: dict[int, Flight] = field(default_factory=dict)
    prefill_s: float = 0.0
    pending: int = 0
    itl_s: float = _START_ITL_S
    _own_tokens: list[float] | None = None

    def add(self, key: int, flight: Flight) -> None:
        """A request was sent."""
        self.flights[key] = flight
        self.prefill_s += flight.prefill_s
        self.pending += 1
        self._own_tokens = None

    def first_token(self, flight: Flight, now: float) -> None:
        """Its prompt is computed."""
        if flight.first_token_s is None:
            flight.first_token_s = now
            self.pending -= 1
            self.prefill_s = self.prefill_s - flight.prefill_s if self.pending else 0.0

    def remove(self, key: int, now: float) -> None:
        """It ended."""
        self.first_token(self.flights[key], now)
        del self.flights[key]
        self._own_tokens = None

    def learn_itl(self, flight: Flight, now: float, tokens: int) -> None:
        """An answer of `tokens` ended."""
        if flight.first_token_s is not None and tokens > 1:
            seconds = (now - flight.first_token_s) / (tokens - 1)
            self.itl_s += _WEIGHT * (seconds - self.itl_s)

    @property
    def decoding(self) -> int:
        """Requests that have had their first token."""
        return len(self.flights) - self.pending

    def oldest_wait_s(self, now: float) -> float:
        """How long the first of those that wait for their first token has waited; 0 for none."""
        for flight in self.flights.values():
            if flight.first_token_s is None:
                return now - flight.sent_s
        return 0.0

    def overlaps(self, chain: Sequence[int], block_tokens: float) -> dict[int, float]:
        """Tokens of `chain` that requests here hold as well, by their key; those with none are left out."""
        found = {}
        for key, flight in self.flights.items():
            blocks = common_blocks(chain, flight.chain)
            if blocks:
                found[key] = blocks * block_tokens
        return found

    def room(self, now: float, output_tokens: float) -> Room:
        """What is taken, and when it will be free, by what is expected of the answers under way."""
        if self._own_tokens is None:
            self._own_tokens = [self._own(flight) for flight in self.flights.values()]
        answer_s = output_tokens * self.itl_s
        queue_s = 0.0
        ends = []
        for flight, tokens in zip(self.flights.values(), self._own_tokens, strict=True):
            if flight.first_token_s is None:
                queue_s += flight.prefill_s
                ends.append((queue_s + answer_s, tokens))
            else:
                ends.append((max(0.0, flight.first_token_s + answer_s - now), tokens))
        return Room(sum(self._own_tokens), tuple(ends))

    def _own(self, flight: Flight) -> float:
        """Tokens of a request that none of those sent before it, and still here, holds too."""
        here = self.flights
        return flight.tokens - max((t for key, t in flight.overlaps.items() if key in here), default=0.0)
