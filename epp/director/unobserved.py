"""Requests whose end nobody reports: a gateway sent them and does not show the whole answer.

The ledger counts them until they are estimated to be over:

- A scrape says how many requests an endpoint has. What is observed to be in flight there is subtracted; if
  fewer are left than are counted, the surplus is over, those first whose end was expected first. A request
  that may not have been there yet when the page was made stays: one whose answer began less than
  `ON_ITS_WAY_S` ago, or of whose answer nothing was seen and that is younger than `SETTLE_S` (the engine
  counts it after it has made tokens of its prompt).
- While scrapes come, a request whose expected end has passed stays as long as they say that it is there, at
  most `PATIENCE` times as long as expected: other routers may send requests to the endpoint too.
- Without fresh scrapes it is over at its expected end.

What is expected is a moving average by model, learned from the requests whose end is known and from the ages
of those that a scrape ended.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from epp.director.exchange import Exchange
from epp.director.hold import Hold
from epp.director.recent import RecentNumbers
from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint

__all__ = ["FIRST_GUESS_S", "ON_ITS_WAY_S", "PATIENCE", "SETTLE_S", "Unobserved"]

SETTLE_S: Final = 1.0
ON_ITS_WAY_S: Final = 0.1
PATIENCE: Final = 4.0
FIRST_GUESS_S: Final = 10.0
_WEIGHT: Final = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class _Counted:
    """One request that is still counted; times are monotonic seconds."""

    exchange: Exchange
    hold: Hold
    model: str
    since: float
    settled: float  # from here on a page that does not show it says that it is over
    due: float
    given_up: float


class Unobserved:
    """Holds what the ledger counts without knowing. All calls are short: each looks at one endpoint's."""

    def __init__(self, ledger: Ledger, release: Callable[[Exchange, float], None]) -> None:
        """`release` takes a request off the ledger at a time."""
        self._ledger = ledger
        self._release = release
        self._by_slot: dict[int, list[_Counted]] = {}
        self._durations: RecentNumbers[str] = RecentNumbers()
        self._scraped: dict[int, float] = {}

    def __len__(self) -> int:
        """Requests that are counted."""
        return sum(map(len, self._by_slot.values()))

    def expected_s(self, model: str) -> float:
        """How long a request for `model` takes."""
        known = self._durations.get(model)
        return FIRST_GUESS_S if known is None else known

    def learn(self, exchange: Exchange, now: float) -> None:
        """A request is known to have ended now."""
        self._durations.blend(_model(exchange), now - exchange.arrived, _WEIGHT)

    def add(self, exchange: Exchange, hold: Hold, now: float) -> None:
        """Count a request from here on without knowing."""
        model, since = _model(exchange), exchange.arrived
        expected_s = self.expected_s(model)
        counted = _Counted(
            exchange,
            hold,
            model,
            since,
            now + ON_ITS_WAY_S if exchange.status is not None else since + SETTLE_S,
            max(now, since + expected_s),
            max(now, since + PATIENCE * expected_s),
        )
        self._by_slot.setdefault(hold.endpoint.slot, []).append(counted)

    def on_scrape(self, endpoint: Endpoint, now: float) -> None:
        """The endpoint has told its load."""
        metrics, counted = endpoint.metrics, self._by_slot.get(endpoint.slot)
        if metrics is None or metrics.running is None:
            return
        self._scraped[endpoint.slot] = now
        if not counted:
            return
        told = round(metrics.running + (metrics.waiting or 0.0))
        observed = self._ledger.requests[endpoint.slot] - len(counted)
        settled = sorted((c for c in counted if c.settled <= now), key=lambda c: c.due)
        surplus = len(settled) - max(0, told - observed)
        for over in settled[: max(0, surplus)]:
            self._durations.blend(over.model, now - over.since, _WEIGHT)
            self._end(over, now)

    def tick(self, now: float) -> None:
        """Take off what is over by the clock; cheap when there is nothing."""
        for slot in list(self._by_slot):
            fresh = now - self._scraped.get(slot, float("-inf")) <= PATIENCE * SETTLE_S
            for counted in list(self._by_slot[slot]):
                if now >= (counted.given_up if fresh else counted.due):
                    self._end(counted, now)

    def _end(self, counted: _Counted, now: float) -> None:
        slot = counted.hold.endpoint.slot
        there = self._by_slot[slot]
        there.remove(counted)
        if not there:
            del self._by_slot[slot]
        self._release(counted.exchange, now)


def _model(exchange: Exchange) -> str:
    return exchange.resolution.model if exchange.resolution else ""
