"""Predicted hits against the engines' own counters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from tests.real_vllm import pages
from tests.real_vllm.router import Router
from tests.real_vllm.servers import VllmServer

__all__ = ["Agreement", "Hits"]


@dataclass(frozen=True)
class Hits:
    """Prompt tokens of one tier, summed over the servers."""

    predicted: float
    counted: float

    @property
    def off(self) -> float:
        """By what share of the counted tokens the prediction misses; below 0: too few."""
        return self.predicted / self.counted - 1 if self.counted else float(self.predicted > 0)

    def __sub__(self, before: Self) -> "Hits":
        return Hits(self.predicted - before.predicted, self.counted - before.counted)


class Agreement:
    """How much both have grown since it was made, or since `begin`."""

    def __init__(self, router: Router, servers: Sequence[VllmServer], note: Callable[[str], None]) -> None:
        self._router = router
        self._servers = servers
        self._note = note
        self._before = self._read()

    def begin(self, *, sent: int) -> None:
        """Count from here on; `sent` requests went through the router so far."""
        self._wait_for(sent)
        self._before = self._read()

    def measure(self, title: str, *, sent: int) -> dict[str, Hits]:
        """Growth by tier (`gpu`, `cpu`), noted as a row of figures."""
        self._wait_for(sent)
        grown = {tier: hits - self._before[tier] for tier, hits in self._read().items()}
        self._note(f"{title:<20}" + "".join(_cell(tier, hits) for tier, hits in grown.items()))
        return grown

    def _wait_for(self, sent: int) -> None:
        pages.until(lambda: self._router.ended() >= sent, f"all {sent} requests have ended")

    def _read(self) -> dict[str, Hits]:
        return {"gpu": self._tier("gpu", "device"), "cpu": self._tier("cpu", "host")}

    def _tier(self, tier: str, source: str) -> Hits:
        return Hits(
            sum(self._router.predicted_tokens(server, tier) for server in self._servers),
            sum(server.cached_tokens(source) for server in self._servers),
        )


def _cell(tier: str, hits: Hits) -> str:
    return f"   {tier}: predicted {hits.predicted:>7.0f}, counted {hits.counted:>7.0f} ({hits.off:+.1%})"
