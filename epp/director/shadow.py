"""A second configuration that decides for live requests and is never obeyed.

It sees what the live one sees, at the same moment: the same candidates, ledger and metrics. Its views of the
index record where requests really went, with its own block sizes, caps and capacities. So it tells how often
and by how much the next decision would differ, not what caches would look like had it decided all along.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from epp.director.chains import PromptChains, match_views, view_groups
from epp.director.views import Tier, TierView, predicted_hits
from epp.endpoints.types import Endpoint
from epp.errors import NoEndpointsError, SaturatedError
from epp.prefix import PrefixIndex
from epp.scheduling.contracts import Cycle
from epp.scheduling.scheduler import Scheduler

__all__ = ["Shadow", "ShadowTally"]

Verdict = Literal["same", "other", "none", "error"]
Pick = Literal["shadow", "live"]
_VERDICTS: Final[tuple[Verdict, ...]] = ("same", "other", "none", "error")


@dataclass(slots=True)
class ShadowTally:
    """Counts of all shadows there have been; only one of them is at work at a time.

    Attributes:
        requests: by verdict: `same` or `other` endpoint, `none` when the shadow would have refused, `error`
            when it failed.
        hit_tokens: predicted by the shadow's views, for the endpoint of `shadow` and of `live` alike, of the
            requests with the verdict `same` or `other`.
        seconds: time spent.
    """

    requests: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(_VERDICTS, 0))
    hit_tokens: dict[tuple[Pick, Tier], int] = field(default_factory=dict)
    seconds: float = 0.0


class Shadow:
    """One configuration's scheduler with its views; whatever it raises stays here."""

    def __init__(
        self,
        views: tuple[TierView, ...],
        scheduler: Scheduler,
        tally: ShadowTally,
        *,
        timer: Callable[[], float],
        failed: Callable[[Exception], None],
    ) -> None:
        """`failed` is told of each failure; `timer` gives seconds for the tally alone."""
        self.views = views
        self._groups = view_groups(views)
        self.scheduler = scheduler
        self.tally = tally
        self._timer = timer
        self._failed = failed

    def compare(
        self,
        index: PrefixIndex,
        cycle: Cycle,
        chains: PromptChains | None,
        block_tokens: Mapping[int, float],
        picked: Endpoint,
    ) -> None:
        """Decide for the request of `cycle`, which goes to `picked`, before anything was written for it."""
        started = self._timer()
        try:
            matches = match_views(index, self._groups, chains, block_tokens) if chains is not None else {}
            verdict = self._decide(replace(cycle, matches=matches), picked)
        except Exception as error:  # noqa: BLE001 - the edge where the shadow ends; counted and told
            verdict = "error"
            self._failed(error)
        self.tally.requests[verdict] += 1
        self.tally.seconds += self._timer() - started

    def on_first_token(self, cycle: Cycle, now: float) -> None:
        """The first token of a request that was compared came."""
        try:
            self.scheduler.on_first_token_of(cycle, now)
        except Exception as error:  # noqa: BLE001 - as in `compare`
            self._failed(error)

    def on_ended(self, cycle: Cycle, now: float, output_tokens: int | None) -> None:
        """A request that was compared has ended."""
        try:
            self.scheduler.on_end_of(cycle, now, output_tokens)
        except Exception as error:  # noqa: BLE001 - as in `compare`
            self._failed(error)

    def _decide(self, cycle: Cycle, picked: Endpoint) -> Verdict:
        try:
            decision = self.scheduler.schedule(cycle)
        except (SaturatedError, NoEndpointsError):
            return "none"
        choice = next(iter(decision.primary.order))
        self.scheduler.on_picked(decision, picked)
        self._count_hits("shadow", cycle, choice)
        self._count_hits("live", cycle, picked)
        return "same" if choice.slot == picked.slot else "other"

    def _count_hits(self, pick: Pick, cycle: Cycle, endpoint: Endpoint) -> None:
        hits = self.tally.hit_tokens
        if cycle.matches:
            found = predicted_hits(self.views, endpoint, cycle.matches, cycle.prompt_tokens)
            for tier, tokens in found.items():
                hits[pick, tier] = hits.get((pick, tier), 0) + tokens
