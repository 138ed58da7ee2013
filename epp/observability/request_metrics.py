"""What is counted when a request has ended."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from epp.director.record import RequestRecord
from epp.director.types import EndReason, FailureKind
from epp.endpoints.types import Pool
from epp.observability import bounds
from epp.observability import families_compat as compat
from epp.observability import families_own as own
from epp.observability.exposition import Sample
from epp.observability.instruments import OTHER, Family, Histogram, LabelCap
from epp.request import Rewrite
from epp.response import Usage
from epp.scheduling.contracts import PrefixMatch

__all__ = ["RequestMetrics", "ViewLabels"]

_UNNAMED: Final = "unknown"  # the label of a request whose model is not known
_IN_TIME: Final = frozenset({EndReason.COMPLETE, EndReason.REJECTED, EndReason.UNOBSERVED})
_TOGETHER: Final = 128  # requests whose observations are counted at once
_NOWHERE: Final = ("", "", "")  # endpoint labels of an attempt that found none

FlowKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class ViewLabels:
    """A prefix producer, as matches are named after it, with the tier of its view."""

    plugin_name: str
    plugin_type: str
    tier: str
    block_bytes: int


class _FlowSeries:
    """Of one model, target, fairness id and priority."""

    def __init__(self) -> None:
        self.requests = 0
        self.errors: dict[str, int] = {}
        self.duration = Histogram(bounds.SECONDS)
        self.request_size = Histogram(bounds.BYTES)
        self.response_size = Histogram(bounds.TOKENS_TO_65536)
        self.input_tokens = Histogram(bounds.TOKENS)
        self.output_tokens = Histogram(bounds.TOKENS_TO_8192)
        self.cached_tokens = Histogram(bounds.TOKENS)
        self.per_output_token = Histogram(bounds.PER_TOKEN)
        self.first_byte = {
            "false": Histogram(bounds.SECONDS_TO_120),
            "true": Histogram(bounds.SECONDS_TO_120),
        }
        self.between_tokens = Histogram(bounds.BETWEEN_TOKENS)

    def settle(self) -> None:
        """Count what its histograms were told."""
        for _, read in _BY_FLOW:
            read(self).settle()
        for histogram in self.first_byte.values():
            histogram.settle()


# Histograms without observations are left out: a page must not grow with names that nobody serves.
_BY_FLOW: Final[tuple[tuple[Family, Callable[[_FlowSeries], Histogram]], ...]] = (
    (compat.REQUEST_DURATION, attrgetter("duration")),
    (compat.REQUEST_SIZE, attrgetter("request_size")),
    (compat.RESPONSE_SIZE, attrgetter("response_size")),
    (compat.INPUT_TOKENS, attrgetter("input_tokens")),
    (compat.OUTPUT_TOKENS, attrgetter("output_tokens")),
    (compat.CACHED_TOKENS, attrgetter("cached_tokens")),
    (compat.PER_OUTPUT_TOKEN, attrgetter("per_output_token")),
    (compat.BETWEEN_TOKENS, attrgetter("between_tokens")),
)


class _TokenSeries:
    """Predictions and measurements of one model, in tokens."""

    def __init__(self) -> None:
        self.estimated = 0
        self.predicted = {"gpu": 0, "cpu": 0}
        self.compared = 0
        self.measured = 0
        self.measured_prompt = 0
        self.gap = {"over": 0, "under": 0}


class _EndpointSeries:
    def __init__(self) -> None:
        self.attempts: dict[str, int] = {}  # by target model
        self.predicted = {"gpu": 0, "cpu": 0}


class _ViewSeries:
    def __init__(self) -> None:
        self.hit_ratio = Histogram(bounds.SHARE)
        self.hit_bytes = Histogram(bounds.HIT_BYTES)


class RequestMetrics:
    """Counters and histograms of requests. `observe` makes some twenty observations in a few microseconds."""

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
        self._flows: dict[FlowKey, _FlowSeries] = {}
        self._known: dict[tuple[str | None, str, str, int], tuple[FlowKey, _FlowSeries]] = {}
        self._tokens: dict[str, _TokenSeries] = {}
        self._unsettled: set[_FlowSeries] = set()  # with observations that wait
        self._waiting = 0  # requests
        self._endpoints: dict[str, _EndpointSeries] = {}
        self._failed_attempts: dict[str, int] = {}
        self._ends: defaultdict[tuple[EndReason, int | None], int] = defaultdict(int)
        self._rewrites: dict[tuple[str, str, str], int] = {}
        self._retries: dict[FailureKind, int] = {}
        self._dropped: dict[tuple[str, int], int] = {}
        self._processing = Histogram(bounds.PROCESSING)
        self._decision = Histogram(bounds.ROUTER)
        self._prepare = Histogram(bounds.ROUTER)

    def use_views(self, views: Iterable[ViewLabels]) -> None:
        """Count hits of these views from here on; those that are as before go on counting."""
        self._views = {view: self._views.get(view) or _ViewSeries() for view in views}

    def flow_key(self, model: str, target: str, fairness_id: str, priority: int) -> FlowKey:
        """Label values of a request, capped; a name that is missing is taken from the other."""
        labels = self._models
        return (
            labels.label(model or target or _UNNAMED),
            labels.label(target or model or _UNNAMED),
            self._fairness.label(fairness_id),
            str(priority),
        )

    def observe(self, record: RequestRecord) -> None:
        """Count one request."""
        names = (record.model, record.target_model, record.fairness_id, record.priority)
        key, series = self._known.get(names) or self._flow(names)
        self._unsettled.add(series)
        self._waiting += 1
        if self._waiting == _TOGETHER:
            self._settle()
        series.requests += 1
        status, error = record.status, record.error
        self._ends[record.reason, status] += 1
        if error is not None or record.reason is not EndReason.COMPLETE or status is None or status >= 400:
            _observe_failure(series, record)
        if record.dropped is not None:
            dropped = (record.dropped, record.priority)
            self._dropped[dropped] = self._dropped.get(dropped, 0) + 1
        if record.rewrite is not None:
            self._observe_rewrite(record.rewrite)
        if record.retries:
            for kind in record.retries[: max(0, record.attempts - 1)]:
                self._retries[kind] = self._retries.get(kind, 0) + 1
        endpoint = None if record.endpoint is None else self._endpoint(record.endpoint)
        self._observe_router(record, endpoint, key[1])
        if endpoint is None:
            return
        series.request_size.observe(record.request_bytes)
        if error is None and status is not None:
            _observe_response(series, record)
            if 200 <= status < 300:
                self._observe_hits(record, endpoint, key[1])

    def _settle(self) -> None:
        """Count what the histograms were told."""
        for flow in self._unsettled:
            flow.settle()
        for view in self._views.values():
            view.hit_ratio.settle()
            view.hit_bytes.settle()
        for histogram in (self._prepare, self._decision, self._processing):
            histogram.settle()
        self._unsettled.clear()
        self._waiting = 0

    def _flow(self, names: tuple[str | None, str, str, int]) -> tuple[FlowKey, _FlowSeries]:
        model, target, fairness_id, priority = names
        key = self.flow_key(model or "", target, fairness_id, priority)
        series = self._flows.setdefault(key, _FlowSeries())
        # Names that share the label of all that is over the cap are as many as clients like.
        if OTHER not in key:
            self._known[names] = key, series
        return key, series

    def _observe_rewrite(self, rewrite: Rewrite) -> None:
        labels = self._models
        key = (rewrite.source, labels.label(rewrite.asked or _UNNAMED), labels.label(rewrite.target))
        self._rewrites[key] = self._rewrites.get(key, 0) + 1

    def _observe_router(self, record: RequestRecord, endpoint: _EndpointSeries | None, target: str) -> None:
        prepare_s, decision_s = record.prepare_s, record.decision_s
        self._prepare.observe(prepare_s)
        if decision_s is None:
            return
        self._decision.observe(decision_s)
        self._processing.observe(prepare_s + decision_s)
        attempts = self._failed_attempts if endpoint is None else endpoint.attempts
        attempts[target] = attempts.get(target, 0) + 1

    def _endpoint(self, address: str) -> _EndpointSeries:
        series = self._endpoints.get(address)
        if series is None:
            self.drop_removed(self._pool())
            series = self._endpoints[address] = _EndpointSeries()
        return series

    def drop_removed(self, pool: Pool) -> None:
        """Forget the series of endpoints that are gone."""
        for address in [a for a in self._endpoints if a not in pool.by_address]:
            del self._endpoints[address]

    def _observe_hits(self, record: RequestRecord, endpoint: _EndpointSeries, model: str) -> None:
        tokens = self._tokens.get(model)
        if tokens is None:
            tokens = self._tokens[model] = _TokenSeries()
        if record.prompt_tokens_estimated is not None:
            tokens.estimated += record.prompt_tokens_estimated
        gpu, cpu = record.predicted_gpu_tokens, record.predicted_cpu_tokens
        if gpu is None and cpu is None:
            return
        if gpu:
            tokens.predicted["gpu"] += gpu
            endpoint.predicted["gpu"] += gpu
        if cpu:
            tokens.predicted["cpu"] += cpu
            endpoint.predicted["cpu"] += cpu
        if record.usage is not None:
            _compare(tokens, record.usage, (gpu or 0) + (cpu or 0))
        if record.decision is not None:
            self._observe_matches(record.endpoint or "", record.decision.cycle.matches)

    def _observe_matches(self, address: str, matches: Mapping[str, PrefixMatch]) -> None:
        there = self._pool().by_address.get(address)
        if there is None:
            return
        for view, series in self._views.items():
            match = matches.get(view.plugin_name)
            if match is not None and match.total_blocks:
                blocks = match.blocks(there.slot)
                series.hit_ratio.observe(blocks / match.total_blocks)
                series.hit_bytes.observe(blocks * view.block_bytes)

    def families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        """All families with their values."""
        self.drop_removed(pool)
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
        for family, read in _BY_FLOW:
            yield family, [(key, h) for key, s in flows if any((h := read(s)).counts)]
        yield (
            compat.FIRST_BYTE,
            [((*key, how), h) for key, s in flows for how, h in s.first_byte.items() if any(h.counts)],
        )

    def _router_families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        yield compat.PROCESSING, [((), self._processing)]
        yield compat.SCHEDULER_DURATION, [((), self._decision.coarser(bounds.SCHEDULING))]
        yield compat.SCHEDULER_ATTEMPTS, list(self._attempts(pool))
        yield own.DECISION, [((), self._decision)]
        yield own.PREPARE, [((), self._prepare)]
        yield compat.REWRITES, list(self._rewrites.items())
        yield own.ENDS, [((why.value, str(status or "")), n) for (why, status), n in self._ends.items()]
        yield own.DROPPED, [((why, str(priority)), n) for (why, priority), n in self._dropped.items()]
        yield own.RETRIES, [((kind.value,), count) for kind, count in self._retries.items()]

    def _attempts(self, pool: Pool) -> Iterator[Sample]:
        for target, count in self._failed_attempts.items():
            yield ("failure", target, *_NOWHERE), count
        for address, series in self._shown(pool):
            spec = pool.by_address[address].spec
            where = (spec.name or spec.host, spec.namespace, str(spec.port))
            for target, count in series.attempts.items():
                yield ("success", target, *where), count

    def _shown(self, pool: Pool) -> list[tuple[str, _EndpointSeries]]:
        """Series of the endpoints of `pool`: others may have come since the page was begun."""
        return [(address, s) for address, s in self._endpoints.items() if address in pool.by_address]

    def _token_families(self, pool: Pool) -> Iterator[tuple[Family, list[Sample]]]:
        models = list(self._tokens.items())
        yield own.ESTIMATED_TOKENS, [((model,), t.estimated) for model, t in models]
        yield own.PREDICTED_TOKENS, _split(models, lambda t: t.predicted)
        yield own.COMPARED_TOKENS, [((model,), t.compared) for model, t in models]
        yield own.MEASURED_TOKENS, [((model,), t.measured) for model, t in models]
        yield own.MEASURED_PROMPT_TOKENS, [((model,), t.measured_prompt) for model, t in models]
        yield own.GAP_TOKENS, _split(models, lambda t: t.gap)
        yield (
            own.ENDPOINT_PREDICTED_TOKENS,
            [((address, tier), n) for address, s in self._shown(pool) for tier, n in s.predicted.items()],
        )


def _labels(view: ViewLabels) -> tuple[str, str, str]:
    return view.plugin_name, view.plugin_type, view.tier


def _split(
    models: list[tuple[str, _TokenSeries]], part: Callable[[_TokenSeries], Mapping[str, int]]
) -> list[Sample]:
    return [((model, name), count) for model, tokens in models for name, count in part(tokens).items()]


def _error_code(record: RequestRecord) -> str | None:
    """Ours, else the reason of an end before its time, else the class of an endpoint's error."""
    if record.error is not None:
        return record.error
    if record.reason not in _IN_TIME:
        return record.reason.value
    if record.status is not None and record.status >= 400:
        return f"upstream_{record.status // 100}xx"
    return None


def _observe_failure(series: _FlowSeries, record: RequestRecord) -> None:
    """Count an error, if it is one."""
    code = _error_code(record)
    if code is not None:
        series.errors[code] = series.errors.get(code, 0) + 1


def _observe_response(series: _FlowSeries, record: RequestRecord) -> None:
    """Sizes, tokens and times of a response that an endpoint gave."""
    if record.reason is not EndReason.UNOBSERVED:
        series.response_size.observe(record.response_bytes)
    usage, output_tokens = record.usage, None
    if usage is not None:
        output_tokens = usage.completion_tokens
        if usage.prompt_tokens is not None:
            series.input_tokens.observe(usage.prompt_tokens)
        if output_tokens is not None:
            series.output_tokens.observe(output_tokens)
        if usage.cached_tokens is not None:
            series.cached_tokens.observe(usage.cached_tokens)
    first = record.first_byte_at
    if first is not None:
        series.first_byte["true" if record.stream else "false"].observe(first - record.arrived)
    if record.reason is not EndReason.COMPLETE:
        return
    duration = record.ended_at - record.arrived
    series.duration.observe(duration)
    if output_tokens:
        series.per_output_token.observe(duration / output_tokens)
        if record.stream and first is not None and output_tokens > 1:
            series.between_tokens.observe((record.ended_at - first) / (output_tokens - 1))


def _compare(tokens: _TokenSeries, usage: Usage, predicted: int) -> None:
    """Prediction against the cached tokens that the endpoint told, if it did."""
    cached, prompt = usage.cached_tokens, usage.prompt_tokens
    if cached is None or prompt is None:
        return
    tokens.compared += predicted
    tokens.measured += cached
    tokens.measured_prompt += prompt
    if predicted > cached:
        tokens.gap["over"] += predicted - cached
    else:
        tokens.gap["under"] += cached - predicted
