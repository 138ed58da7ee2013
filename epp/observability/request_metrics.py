"""What is counted when a request has ended."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import truediv
from typing import Final

from epp.director.record import RequestRecord
from epp.director.types import FailureKind
from epp.endpoints.types import Pool
from epp.observability import bounds
from epp.observability import families_compat as compat
from epp.observability import families_own as own
from epp.observability.exposition import Sample
from epp.observability.instruments import OTHER, Family, Histogram, LabelCap
from epp.observability.request_groups import (
    BY_FLOW,
    EndpointSeries,
    FlowKey,
    FlowSeries,
    Group,
    Kind,
    RouterSeries,
    TokenSeries,
)
from epp.request import Rewrite
from epp.response import Usage
from epp.scheduling.contracts import PrefixMatch

__all__ = ["RequestMetrics", "ViewLabels"]

_UNNAMED: Final = "unknown"  # the label of a request whose model is not known
_TOGETHER: Final = 128  # requests that are counted at once
_NOWHERE: Final = ("", "", "")  # endpoint labels of an attempt that found none
_NO_USAGE: Final = Usage()


@dataclass(frozen=True, slots=True)
class ViewLabels:
    """A prefix producer, as matches are named after it, with the tier of its view."""

    plugin_name: str
    plugin_type: str
    tier: str
    block_bytes: int


class _ViewSeries:
    """Of one view. `hits` are blocks that matched, with how many there are, and are not counted yet."""

    def __init__(self) -> None:
        self.hits: list[tuple[int, int]] = []
        self.hit_ratio = Histogram(bounds.SHARE)
        self.hit_bytes = Histogram(bounds.HIT_BYTES)

    def count(self, block_bytes: int) -> None:
        """Count all hits."""
        if self.hits:
            blocks, of_blocks = zip(*self.hits, strict=True)
            self.hits.clear()
            self.hit_ratio.observe(list(map(truediv, blocks, of_blocks)))
            self.hit_bytes.observe(list(map(block_bytes.__mul__, blocks)))


class RequestMetrics:
    """Counters and histograms of requests.

    A request makes some twenty observations. Its numbers are put down, and counted with those of others.
    """

    def __init__(
        self,
        pool: Callable[[], Pool],
        models: LabelCap,
        fairness: LabelCap,
    ) -> None:
        self._pool = pool
        self._models = models
        self._fairness = fairness
        self._views: dict[ViewLabels, _ViewSeries] = {}
        self._hits: list[tuple[str, Callable[[tuple[int, int]], None]]] = []  # of each view by its name
        self._flows: dict[FlowKey, FlowSeries] = {}
        self._groups: dict[Kind, Group] = {}  # by labels instead of names
        self._known: dict[Kind, Group] = {}  # by names
        self._uncounted: list[Group] = []  # of each request that is not counted yet
        self._endpoints: dict[str, EndpointSeries] = {}
        self._router = RouterSeries()
        self._rewrites: dict[tuple[str, str, str], int] = {}
        self._retries: dict[FailureKind, int] = {}

    def use_views(self, views: Iterable[ViewLabels]) -> None:
        """Count hits of these views from here on; those that are as before go on counting."""
        self._views = {view: self._views.get(view) or _ViewSeries() for view in views}
        self._hits = [(view.plugin_name, series.hits.append) for view, series in self._views.items()]

    def flow_key(self, model: str, target: str, fairness_id: str, priority: int) -> FlowKey:
        """Label values of a request, capped; a name that is missing is taken from the other."""
        labels = self._models
        return (
            labels.label(model or target or _UNNAMED),
            labels.label(target or model or _UNNAMED),
            self._fairness.label(fairness_id),
            str(priority),
        )

    def observe(self, records: Iterable[RequestRecord]) -> None:
        """Take requests that have ended; they are counted when there are many, and for a page."""
        uncounted, known, endpoints = self._uncounted, self._known, self._endpoints
        in_pool = self._pool().by_address.get
        if len(uncounted) >= _TOGETHER:
            self._count()
        for record in records:
            kind = (
                record.model,
                record.target_model,
                record.fairness_id,
                record.priority,
                record.reason,
                record.status,
                record.error,
                record.dropped,
                record.stream,
            )
            group = known.get(kind) or self._group(kind)
            address = record.endpoint
            endpoint = None if address is None else endpoints.get(address) or self._endpoint(address)
            usage = record.usage or _NO_USAGE
            uncounted.append(group)
            group.rows.append(
                (
                    endpoint,
                    record.arrived,
                    record.first_byte_at,
                    record.ended_at,
                    record.prepare_s,
                    record.decision_s,
                    record.request_bytes,
                    record.response_bytes,
                    usage.prompt_tokens,
                    usage.completion_tokens,
                    usage.cached_tokens,
                    record.prompt_tokens_estimated,
                    record.predicted_gpu_tokens,
                    record.predicted_cpu_tokens,
                )
            )
            if record.rewrite is not None:
                self._observe_rewrite(record.rewrite)
            if record.retries:
                for failure in record.retries[: max(0, record.attempts - 1)]:
                    self._retries[failure] = self._retries.get(failure, 0) + 1
            if address is not None and group.served and record.decision is not None:
                there = in_pool(address)
                if there is not None:
                    self._observe_matches(there.slot, record.decision.cycle.matches)

    def _count(self) -> None:
        """Count what was put down."""
        groups = dict.fromkeys(self._uncounted)
        self._uncounted.clear()
        for group in groups:
            group.count(self._router)
        for view, series in self._views.items():
            series.count(view.block_bytes)

    def _group(self, kind: Kind) -> Group:
        model, target, fairness_id, priority, reason, status, error, dropped, stream = kind
        key = self.flow_key(model or "", target, fairness_id, priority)
        labelled: Kind = (*key[:3], priority, reason, status, error, dropped, stream)
        group = self._groups.get(labelled)
        if group is None:
            flow = self._flows.setdefault(key, FlowSeries())
            group = self._groups[labelled] = Group(key, flow, kind)
        # Names that share the label of all that is over the cap are as many as clients like.
        if OTHER not in key:
            self._known[kind] = group
        return group

    def _observe_rewrite(self, rewrite: Rewrite) -> None:
        labels = self._models
        key = (rewrite.source, labels.label(rewrite.asked or _UNNAMED), labels.label(rewrite.target))
        self._rewrites[key] = self._rewrites.get(key, 0) + 1

    def _endpoint(self, address: str) -> EndpointSeries:
        series = self._endpoints.get(address)
        if series is None:
            self.drop_removed(self._pool())
            series = self._endpoints[address] = EndpointSeries()
        return series

    def drop_removed(self, pool: Pool) -> None:
        """Forget the series of endpoints that are gone."""
        for address in [a for a in self._endpoints if a not in pool.by_address]:
            del self._endpoints[address]

    def _observe_matches(self, slot: int, matches: Mapping[str, PrefixMatch]) -> None:
        for name, add_hit in self._hits:
            match = matches.get(name)
            if match is not None and match.total_blocks:
                add_hit((match.blocks(slot), match.total_blocks))

    def families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        """All families with their values, each as of the moment that it is asked for."""
        self._count()
        self.drop_removed(pool)
        for family in self._families(pool):
            yield family
            self._count()  # requests that have ended since

    def _families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        yield from self._flow_families()
        yield from self._router_families(pool)
        yield from self._token_families(pool)
        yield (
            compat.INDEXER_HIT_RATIO,
            [(_labels(view), series.hit_ratio) for view, series in self._views.items()],
        )
        yield (
            compat.INDEXER_HIT_BYTES,
            [(_labels(view), series.hit_bytes) for view, series in self._views.items()],
        )

    def _flow_families(self) -> Iterator[tuple[Family, list[Sample]]]:
        flows = list(self._flows.items())
        yield compat.REQUESTS, [(key, s.requests) for key, s in flows]
        yield (
            compat.REQUEST_ERRORS,
            [((*key, code), count) for key, s in flows for code, count in s.errors.items()],
        )
        for family, read in BY_FLOW:
            yield family, [(key, h) for key, s in flows if any((h := read(s)).counts)]
        yield (
            compat.FIRST_BYTE,
            [((*key, how), h) for key, s in flows for how, h in s.first_byte.items() if any(h.counts)],
        )

    def _router_families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        yield compat.PROCESSING, [((), self._router.processing)]
        yield compat.SCHEDULER_DURATION, [((), self._router.decision.coarser(bounds.SCHEDULING))]
        yield compat.SCHEDULER_ATTEMPTS, list(self._attempts(pool))
        yield own.DECISION, [((), self._router.decision)]
        yield own.PREPARE, [((), self._router.prepare)]
        yield compat.REWRITES, list(self._rewrites.items())
        yield (
            own.ENDS,
            [((why.value, str(status or "")), n) for (why, status), n in self._router.ends.items()],
        )
        yield own.DROPPED, [((why, str(priority)), n) for (why, priority), n in self._router.dropped.items()]
        yield own.RETRIES, [((kind.value,), count) for kind, count in self._retries.items()]

    def _attempts(self, pool: Pool) -> Iterator[Sample]:
        for target, count in self._router.failed_attempts.items():
            yield ("failure", target, *_NOWHERE), count
        for address, series in self._shown(pool):
            spec = pool.by_address[address].spec
            where = (spec.name or spec.host, spec.namespace, str(spec.port))
            for target, count in series.attempts.items():
                yield ("success", target, *where), count

    def _shown(self, pool: Pool) -> list[tuple[str, EndpointSeries]]:
        """Series of the endpoints of `pool`: others may have come since the page was begun."""
        return [(address, s) for address, s in self._endpoints.items() if address in pool.by_address]

    def _token_families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        models = list(self._router.tokens.items())
        yield own.ESTIMATED_TOKENS, [((model,), t.estimated) for model, t in models]
        yield own.PREDICTED_TOKENS, _split(models, lambda t: t.predicted)
        yield own.COMPARED_TOKENS, [((model,), t.compared) for model, t in models]
        yield own.MEASURED_TOKENS, [((model,), t.measured) for model, t in models]
        yield own.MEASURED_PROMPT_TOKENS, [((model,), t.measured_prompt) for model, t in models]
        yield own.GAP_TOKENS, _split(models, lambda t: t.gap)
        yield (
            own.ENDPOINT_PREDICTED_TOKENS,
            [
                ((address, tier), n)
                for address, s in self._shown(pool)
                for tier, n in (("gpu", s.gpu), ("cpu", s.cpu))
            ],
        )


def _labels(view: ViewLabels) -> tuple[str, str, str]:
    return view.plugin_name, view.plugin_type, view.tier


def _split(
    models: list[tuple[str, TokenSeries]], part: Callable[[TokenSeries], Mapping[str, int]]
) -> list[Sample]:
    return [((model, name), count) for model, tokens in models for name, count in part(tokens).items()]
