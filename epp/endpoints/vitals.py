"""Tells from two scrapes whether what an endpoint held is lost."""

from collections.abc import Iterable

from epp.endpoints.types import EndpointMetrics

__all__ = ["Vitals"]


class Vitals:
    """The last known start time, counters and sleep state of one incarnation.

    A page that lacks one of them leaves the known value: absence proves nothing.
    """

    __slots__ = ("_asleep", "_counters", "_process_start")

    def __init__(self) -> None:
        self._process_start: float | None = None
        self._counters: dict[str, float] = {}
        self._asleep = False

    def restarted(self, metrics: EndpointMetrics) -> bool:
        """Another process answers: another start time, or a counter that went backwards."""
        start = metrics.process_start
        if start is not None and self._process_start is not None and start != self._process_start:
            return True
        return any(value < self._counters.get(name, value) for name, value in _counters(metrics))

    def fell_asleep(self, metrics: EndpointMetrics) -> bool:
        """The engine sleeps and did not before: its cache is discarded."""
        return metrics.awake is False and not self._asleep

    def note(self, metrics: EndpointMetrics) -> None:
        """Take what the page says as the state to compare with."""
        if metrics.process_start is not None:
            self._process_start = metrics.process_start
        if metrics.awake is not None:
            self._asleep = not metrics.awake
        self._counters.update(_counters(metrics))


def _counters(metrics: EndpointMetrics) -> Iterable[tuple[str, float]]:
    if metrics.prompt_tokens_total is not None:
        yield "prompt", metrics.prompt_tokens_total
    if metrics.generation_tokens_total is not None:
        yield "generation", metrics.generation_tokens_total
    for source, value in metrics.cached_tokens_by_source.items():
        yield f"cached:{source}", value
