"""The last decisions, kept by reference and rendered when somebody asks."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from epp.director.record import RequestRecord
from epp.endpoints.types import Endpoint
from epp.observability.access_log import access_line
from epp.observability.timestamps import iso_utc
from epp.scheduling.contracts import Cycle, Decision
from epp.scheduling.receipt import PredictedHit, render

__all__ = ["DecisionLog"]

_LONGEST_PATH: Final = 512

Hits = Callable[[RequestRecord, Endpoint], PredictedHit]


class DecisionLog:
    """A ring of the last `keep` requests for `/debug/decisions`.

    Prompts and headers are taken out of a record's decision when it comes in: a thousand long prompts would
    be gigabytes, and headers hold credentials. `hits` tells what a candidate was predicted to hold; without
    it only the last endpoint's prediction is shown, from the record.
    """

    def __init__(self, keep: int, wall: Callable[[], float], hits: Hits | None = None) -> None:
        self._records: deque[tuple[float, RequestRecord]] = deque(maxlen=keep)
        self._wall = wall
        self._hits = hits

    def observe(self, records: Iterable[RequestRecord]) -> None:
        """Keep requests that have ended, in place of the oldest when the ring is full."""
        wall, keep = self._wall(), self._records.append
        for record in records:
            if record.decision is not None:
                _forget_content(record.decision.cycle)
            if len(record.path) > _LONGEST_PATH:
                record = msgspec.structs.replace(record, path=record.path[:_LONGEST_PATH])  # noqa: PLW2901
            keep((wall, record))

    def render(self, limit: int) -> Iterator[dict[str, Any]]:
        """The newest `limit`, newest first: the access log's fields, and `receipt` (None: no decision)."""
        newest = list(islice(reversed(self._records), limit))
        return (self._render(wall, record) for wall, record in newest)

    def _render(self, wall: float, record: RequestRecord) -> dict[str, Any]:
        fields = msgspec.structs.asdict(access_line(record, iso_utc(wall)))
        known = {name: value for name, value in fields.items() if value not in (None, (), "")}
        return {**known, "receipt": self._receipt(record)}

    def _receipt(self, record: RequestRecord) -> dict[str, Any] | None:
        decision = record.decision
        if decision is None:
            return None
        candidates = decision.primary.candidates
        picked = next((e for e in candidates if e.address == record.endpoint), None)
        if picked is None:
            return None
        return render(decision, picked, self._predicted(record, decision, picked), record.ruled_out)

    def _predicted(
        self, record: RequestRecord, decision: Decision, picked: Endpoint
    ) -> Mapping[int, PredictedHit]:
        told = PredictedHit(record.predicted_gpu_tokens, record.predicted_cpu_tokens)
        if self._hits is None:
            return {picked.slot: told}
        hits = {e.slot: self._hits(record, e) for e in decision.primary.candidates}
        return {**hits, picked.slot: told}


def _forget_content(cycle: Cycle) -> None:
    """Take prompts and headers out of a cycle whose request has ended; all that refers to it loses them.

    The chain of a long prompt goes too: a thousand of them would be 80 MB.
    """
    request = cycle.request
    cycle.headers = {}
    cycle.chain = ()
    if request.prompts or request.salt:
        cycle.request = msgspec.structs.replace(request, prompts=(), salt="")
