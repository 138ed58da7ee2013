"""New endpoints get less than their share for a while."""

from epp.endpoints.identity_cache import IdentityCache
from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint

__all__ = ["SlowStart"]


class SlowStart:
    """Caps what a new endpoint has in flight, growing from one request to the others' mean.

    A new server is idle, so that every load scorer sends it everything at once, while its first requests are
    its slowest (graphs, caches, kernels). An endpoint that is known for `age` < `duration_s` seconds is left
    out of the candidates while it has max(1, mean * age / `duration_s`) requests in flight, where the mean
    is over the candidates that are not new. Scorers stay as they are. When all candidates are new, as after
    the router's own start, nobody is left out. Zero `duration_s` switches it off.
    """

    def __init__(self, duration_s: float) -> None:
        self._duration_s = duration_s
        self._added: IdentityCache[tuple[float, float]] = IdentityCache()

    def limit(self, candidates: tuple[Endpoint, ...], ledger: Ledger, now: float) -> tuple[Endpoint, ...]:
        """The candidates that may take one more request; the same tuple object when that is all of them."""
        duration_s = self._duration_s
        if not duration_s:
            return candidates
        oldest, newest = self._added.get(candidates) or self._note(candidates)
        if now - newest >= duration_s or now - oldest < duration_s:  # none is new, or all are
            return candidates
        requests = ledger.requests
        warm = [requests[e.slot] for e in candidates if now - e.added_at >= duration_s]
        mean = sum(warm) / len(warm)
        kept = tuple(e for e in candidates if requests[e.slot] < self._cap(e, mean, now))
        return candidates if len(kept) == len(candidates) else kept

    def _cap(self, endpoint: Endpoint, mean: float, now: float) -> float:
        share = (now - endpoint.added_at) / self._duration_s
        return max(1.0, share * mean) if share < 1.0 else float("inf")

    def _note(self, candidates: tuple[Endpoint, ...]) -> tuple[float, float]:
        added = [e.added_at for e in candidates]
        known = min(added, default=0.0), max(added, default=0.0)
        self._added.put(candidates, known)
        return known
