"""The decision log of a run: what the router saw and chose, and what the choice cost against the best one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from epp.director.record import RequestRecord
from epp.director.views import Tier, predicted_hits
from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import Cycle
from epp.scheduling.receipt import PredictedHit, render
from epp.simulate.outcome import percentile

__all__ = ["DecisionLog", "Regret", "regret_of"]


@dataclass(frozen=True, slots=True)
class Regret:
    """How much sooner first tokens would have come from the best endpoints, by the servers' true states.

    Attributes:
        decisions: how many were judged.
        mean_s, p90_s: seconds.
        best_share: decisions that no other endpoint would have served 1 ms sooner.
    """

    decisions: int
    mean_s: float
    p90_s: float
    best_share: float


def regret_of(seconds: Sequence[float]) -> Regret:
    """What regrets of single decisions come to."""
    if not seconds:
        return Regret(0, 0.0, 0.0, 0.0)
    best = sum(second < 0.001 for second in seconds) / len(seconds)
    return Regret(len(seconds), fmean(seconds), percentile(sorted(seconds), 0.9), best)


class DecisionLog:
    """Writes a JSON line for each request that ends; feed `observe` and `forecast` to a simulation.

    `forecast_ttft_s` of a candidate is what the simulator expects of it at the moment of the decision, from
    the server's own state, with nothing coming later; `regret_s` is the picked one's above the least.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._forecasts: dict[str, dict[str, float]] = {}
        self._regrets: list[float] = []

    def forecast(self, number: int, seconds: dict[str, float]) -> None:
        """What each endpoint would have done for a request."""
        self._forecasts[str(number)] = seconds

    def observe(self, record: RequestRecord) -> None:
        """A request has ended. Nothing for one that was refused, or that somebody else was picked for."""
        decision = record.decision
        forecasts = self._forecasts.pop(record.request_id, {})
        candidates = decision.primary.candidates if decision is not None else ()
        picked = next((e for e in candidates if e.address == record.endpoint), None)
        if decision is None or picked is None:
            return
        hits = {endpoint.slot: _hit(record, decision.cycle, endpoint) for endpoint in candidates}
        shown = _head(record) | render(decision, picked, hits)
        if picked.address in forecasts:
            self._add_forecasts(shown, picked.address, forecasts)
        self._write(json.dumps(shown) + "\n")

    def _add_forecasts(self, shown: dict[str, Any], picked: str, forecasts: dict[str, float]) -> None:
        regret_s = forecasts[picked] - min(forecasts.values())
        self._regrets.append(regret_s)
        shown["regret_s"] = round(regret_s, 6)
        for candidate in shown["candidates"]:
            seconds = forecasts.get(candidate["endpoint"])
            candidate["forecast_ttft_s"] = None if seconds is None else round(seconds, 6)

    @property
    def regret(self) -> Regret:
        """Of all decisions so far."""
        return regret_of(self._regrets)


def _hit(record: RequestRecord, cycle: Cycle, endpoint: Endpoint) -> PredictedHit:
    if not cycle.matches:
        return PredictedHit()
    hits = predicted_hits(record.views, endpoint, cycle.matches, cycle.prompt_tokens)
    return PredictedHit(hits.get(Tier.GPU), hits.get(Tier.CPU))


def _head(record: RequestRecord) -> dict[str, Any]:
    first = record.first_byte_at
    return {
        "request": record.request_id,
        "arrived_s": round(record.arrived, 6),
        "first_token_s": None if first is None else round(first, 6),
    }
