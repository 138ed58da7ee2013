"""The shadow state of an endpoint: what this router has sent there and what that keeps it busy with."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, nlargest
from typing import Final

import msgspec

from epp.scheduling.producers.latency import Work

__all__ = ["EndpointFlights", "Flight", "common_blocks"]

_START_ITL_S: Final = 0.025
_WEIGHT: Final = 0.05
_SHOWN_S: Final = 1.0  # a scrape is that old at most, mostly
_MOST_OVERLAPS: Final = 32  # of a request with others that are remembered


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
        overlaps: by number of a request that was there before, the tokens that both hold.
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

    def own_tokens(self, end_of: Mapping[int, float], now: float) -> float:
        """What it holds that none of those before it does that end after `now`."""
        shared = 0.0
        for number, tokens in self.overlaps.items():
            if tokens > shared and end_of.get(number, now) > now:
                shared = tokens
        return self.tokens - shared


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


class _Plan(msgspec.Struct, frozen=True):
    """When the last of those that wait is let in, what is free then, and who ends later; absolute seconds."""

    let_in_s: float
    free: float
    ends: tuple[tuple[float, float], ...]

    def room_s(self, needed: float) -> float:
        """When `needed` tokens are free; the last end where they never are."""
        missing, when_s = needed - self.free, self.let_in_s
        for end_s, tokens in self.ends if missing > 0 else ():
            when_s = max(when_s, end_s)
            missing -= tokens
            if missing <= 0:
                break
        return when_s


@dataclass(slots=True)
class EndpointFlights:
    """All of one endpoint, in the order they were sent, by their number."""

    flights: dict[int, Flight] = field(default_factory=dict)
    prefill_s: float = 0.0
    pending: int = 0
    itl_s: float = _START_ITL_S
    _holders: dict[int, int] = field(default_factory=dict)  # by block, how many requests here hold it
    _own_tokens: list[float] | None = None
    _held_tokens: float = 0.0
    _ended: deque[float] = field(default_factory=deque)  # when, of those that a scrape may still show
    _plan: _Plan | None = None  # made when it is asked for, void when something has changed

    def add(self, number: int, flight: Flight) -> None:
        """A request was sent; `number` has never been used before."""
        self.flights[number] = flight
        self.prefill_s += flight.prefill_s
        self.pending += 1
        self._own_tokens = self._plan = None
        shared = self.shared_blocks(flight.chain)
        holders = self._holders
        for block in flight.chain[:shared]:
            holders[block] += 1
        holders.update(dict.fromkeys(flight.chain[shared:], 1))

    def first_token(self, flight: Flight, now: float) -> None:
        """Its prompt is computed."""
        if flight.first_token_s is None:
            flight.first_token_s = now
            self._plan = None
            self.pending -= 1
            self.prefill_s = self.prefill_s - flight.prefill_s if self.pending else 0.0

    def remove(self, number: int, now: float) -> None:
        """It ended."""
        flight = self.flights[number]
        self.first_token(flight, now)
        del self.flights[number]
        self._own_tokens = self._plan = None
        self._let_go(flight.chain)
        self._ended.append(now)

    def _let_go(self, chain: Sequence[int]) -> None:
        """One request less holds these blocks; those that it alone held are the last of its chain."""
        holders = self._holders
        for place, block in enumerate(chain):
            left = holders[block] - 1
            if not left:
                deque(map(holders.__delitem__, chain[place:]), maxlen=0)
                return
            holders[block] = left

    def learn_itl(self, flight: Flight, now: float, tokens: int) -> None:
        """An answer of `tokens` ended."""
        if flight.first_token_s is not None and tokens > 1:
            seconds = (now - flight.first_token_s) / (tokens - 1)
            self.itl_s += _WEIGHT * (seconds - self.itl_s)

    def shown(self, now: float) -> int:
        """Requests of this router that a scrape may have shown: those here, and those that ended just now."""
        ended = self._ended
        while ended and ended[0] <= now - _SHOWN_S:
            ended.popleft()
        return len(self.flights) + len(ended)

    @property
    def decoding(self) -> int:
        """Requests that have had their first token."""
        return len(self.flights) - self.pending

    def oldest_wait_s(self, now: float) -> float:
        """How long the first of those that wait for their first token has waited; 0 for none."""
        if not self.pending:
            return 0.0
        return now - next(flight.sent_s for flight in self.flights.values() if flight.first_token_s is None)

    def shared_blocks(self, chain: Sequence[int]) -> int:
        """Leading blocks of `chain` that some request here holds; who holds one holds all before it."""
        holders = self._holders
        if not chain or chain[0] not in holders:
            return 0
        same, most = 1, len(chain)
        if chain[most - 1] in holders:
            return most
        while same < most - 1:
            middle = (same + most) // 2
            if chain[middle - 1] in holders:
                same = middle
            else:
                most = middle
        return same

    def overlaps(self, chain: Sequence[int], block_tokens: float) -> dict[int, float]:
        """Tokens of `chain` that requests here hold as well, by their number: the largest few."""
        found = {}
        for number, flight in self.flights.items():
            blocks = common_blocks(chain, flight.chain)
            if blocks:
                found[number] = blocks * block_tokens
        if len(found) <= _MOST_OVERLAPS:
            return found
        return dict(nlargest(_MOST_OVERLAPS, found.items(), key=lambda item: (item[1], item[0])))

    @property
    def held_tokens(self) -> float:
        """KV tokens that the requests here need, what they share counted once."""
        self._count()
        return self._held_tokens

    def wait_s(
        self, tokens: float, shared: float, capacity: float, now: float, answer_tokens: float
    ) -> float:
        """Seconds until one that comes after all that are here has room for `tokens`.

        It shares `shared` of them with somebody here, unless it must wait for others that wait: by then those
        that it shares with may be gone.
        """
        if not self.pending and tokens - shared <= capacity - self.held_tokens:
            return 0.0
        if self._plan is None:
            self._plan = self._planned(capacity, now, answer_tokens * self.itl_s)
        needed = tokens if self._plan.let_in_s > now else tokens - shared
        return max(0.0, self._plan.room_s(needed) - now)

    def _planned(self, capacity: float, now: float, answer_s: float) -> _Plan:
        """Requests are let in one after the other, as those before them end; each prefill takes its time."""
        ends: list[tuple[float, float]] = []
        end_of: dict[int, float] = {}
        free, let_in_s, computed_s = capacity, now, now
        for number, flight in self.flights.items():
            if flight.first_token_s is not None:
                end_s, tokens = flight.first_token_s + answer_s, flight.own_tokens(end_of, now)
            else:
                tokens = flight.own_tokens(end_of, let_in_s)
                while free < tokens and ends:
                    freed_s, freed = heappop(ends)
                    let_in_s = max(let_in_s, freed_s)
                    free += freed
                    tokens = flight.own_tokens(end_of, let_in_s)
                computed_s = max(let_in_s, computed_s) + flight.prefill_s
                end_s = computed_s + answer_s
            free -= tokens
            end_of[number] = end_s
            heappush(ends, (end_s, tokens))
        return _Plan(let_in_s, free, tuple(sorted(ends)))

    def _count(self) -> list[float]:
        """What each request holds of its own, counted when one came or went."""
        if self._own_tokens is None:
            self._own_tokens = [self._own(flight) for flight in self.flights.values()]
            self._held_tokens = sum(self._own_tokens)
        return self._own_tokens

    def _own(self, flight: Flight) -> float:
        """Tokens of a request that none of those sent before it, and still here, holds too."""
        here = self.flights
        return flight.tokens - max(
            (t for number, t in flight.overlaps.items() if number in here), default=0.0
        )
