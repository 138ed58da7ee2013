"""Requests that are alike in all but numbers are counted together: a row each, then a column at a time."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import compress, repeat
from operator import add, attrgetter, sub, truediv
from typing import Final, TypeVar

from epp.director.types import EndReason
from epp.observability import bounds
from epp.observability import families_compat as compat
from epp.observability.instruments import Family, Histogram

__all__ = [
    "BY_FLOW", "EndpointSeries", "FlowKey", "FlowSeries", "Group", "Kind", "RouterSeries", "TokenSeries",
]  # fmt: skip

_IN_TIME: Final = frozenset({EndReason.COMPLETE, EndReason.REJECTED, EndReason.UNOBSERVED})

_Number = TypeVar("_Number", int, float)

FlowKey = tuple[str, str, str, str]

# Model, target, fairness id, priority, reason, status, error, dropped, stream.
Kind = tuple[str | None, str, str, int, EndReason, int | None, str | None, str | None, bool]


class EndpointSeries:
    """Of one endpoint."""

    def __init__(self) -> None:
        self.attempts: defaultdict[str, int] = defaultdict(int)  # by target model
        self.gpu = 0  # predicted tokens
        self.cpu = 0


# Endpoint; times of arrival, first byte and end; seconds of preparing and deciding; bytes of request and
# response; reported tokens of prompt and output, and those that were cached; estimated tokens of the prompt,
# and how many are predicted to be held by GPU and CPU.
Row = tuple[
    EndpointSeries | None, float, float | None, float, float, float | None, int, int,
    int | None, int | None, int | None, int | None, int | None, int | None,
]  # fmt: skip


class FlowSeries:
    """Of one model, target, fairness id and priority."""

    def __init__(self) -> None:
        self.requests = 0
        self.errors: defaultdict[str, int] = defaultdict(int)
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


# Histograms without observations are left out: a page must not grow with names that nobody serves.
BY_FLOW: Final[tuple[tuple[Family, Callable[[FlowSeries], Histogram]], ...]] = (
    (compat.REQUEST_DURATION, attrgetter("duration")),
    (compat.REQUEST_SIZE, attrgetter("request_size")),
    (compat.RESPONSE_SIZE, attrgetter("response_size")),
    (compat.INPUT_TOKENS, attrgetter("input_tokens")),
    (compat.OUTPUT_TOKENS, attrgetter("output_tokens")),
    (compat.CACHED_TOKENS, attrgetter("cached_tokens")),
    (compat.PER_OUTPUT_TOKEN, attrgetter("per_output_token")),
    (compat.BETWEEN_TOKENS, attrgetter("between_tokens")),
)


class TokenSeries:
    """Predictions and measurements of one model, in tokens."""

    def __init__(self) -> None:
        self.estimated = 0
        self.predicted = {"gpu": 0, "cpu": 0}
        self.compared = 0
        self.measured = 0
        self.measured_prompt = 0
        self.gap = {"over": 0, "under": 0}


class RouterSeries:
    """Of the router as a whole."""

    def __init__(self) -> None:
        self.ends: defaultdict[tuple[EndReason, int | None], int] = defaultdict(int)
        self.dropped: defaultdict[tuple[str, int], int] = defaultdict(int)
        self.failed_attempts: defaultdict[str, int] = defaultdict(int)
        self.tokens: defaultdict[str, TokenSeries] = defaultdict(TokenSeries)
        self.processing = Histogram(bounds.PROCESSING)
        self.decision = Histogram(bounds.ROUTER)
        self.prepare = Histogram(bounds.ROUTER)


class Group:
    """Requests of one kind and flow.

    Attributes:
        rows: those that are not counted yet.
        served: an endpoint gave them a 2xx answer.
    """

    __slots__ = (
        "_answered", "_code", "_dropped", "_end", "_flow", "_priority", "_reason", "_stream", "_target",
        "rows", "served",
    )  # fmt: skip

    def __init__(self, flow_key: FlowKey, flow: FlowSeries, kind: Kind) -> None:
        _, _, _, self._priority, self._reason, status, error, self._dropped, self._stream = kind
        self._target = flow_key[1]
        self._flow = flow
        self._end = (self._reason, status)
        self._code = _error_code(self._reason, status, error)
        self._answered = error is None and status is not None
        self.served = error is None and status is not None and 200 <= status < 300
        self.rows: list[Row] = []

    def count(self, router: RouterSeries) -> None:
        """Count all rows."""
        rows, self.rows = self.rows, []
        flow, count = self._flow, len(rows)
        flow.requests += count
        router.ends[self._end] += count
        if self._code is not None:
            flow.errors[self._code] += count
        if self._dropped is not None:
            router.dropped[self._dropped, self._priority] += count
        endpoints, _, _, _, prepare_s, decision_s, *_ = zip(*rows, strict=True)
        router.prepare.observe(prepare_s)
        self._count_decisions(router, endpoints, prepare_s, decision_s)
        if None in endpoints:
            rows = [row for row in rows if row[0] is not None]
        if rows:
            self._count_sent(router, rows)

    def _count_decisions(
        self,
        router: RouterSeries,
        endpoints: Sequence[EndpointSeries | None],
        prepare_s: Sequence[float],
        decision_s: Sequence[float | None],
    ) -> None:
        if None in decision_s:
            decided = [second is not None for second in decision_s]
            endpoints = list(compress(endpoints, decided))
            prepare_s = list(compress(prepare_s, decided))
        seconds = _told(decision_s)
        router.decision.observe(seconds)
        router.processing.observe(list(map(add, prepare_s, seconds)))
        for endpoint, count in Counter(endpoints).items():
            attempts = router.failed_attempts if endpoint is None else endpoint.attempts
            attempts[self._target] += count

    def _count_sent(self, router: RouterSeries, rows: Sequence[Row]) -> None:
        """Sizes, tokens and times of requests that went to an endpoint."""
        (
            endpoints, arrived, first, ended, _, _, request_bytes, response_bytes,
            prompt, output, cached, estimated, gpu, cpu,
        ) = zip(*rows, strict=True)  # fmt: skip
        flow = self._flow
        flow.request_size.observe(request_bytes)
        if not self._answered:
            return
        if self._reason is not EndReason.UNOBSERVED:
            flow.response_size.observe(response_bytes)
        flow.input_tokens.observe(_told(prompt))
        flow.output_tokens.observe(_told(output))
        flow.cached_tokens.observe(_told(cached))
        flow.first_byte["true" if self._stream else "false"].observe(_differences(first, arrived))
        if self._reason is EndReason.COMPLETE:
            durations = list(map(sub, ended, arrived))
            flow.duration.observe(durations)
            # Without those that made none.
            flow.per_output_token.observe(
                list(map(truediv, compress(durations, output), filter(None, output)))
            )
            if self._stream:
                flow.between_tokens.observe(_between_tokens(first, ended, output))
        if self.served:
            tokens = router.tokens[self._target]
            tokens.estimated += sum(filter(None, estimated))
            _count_predicted(tokens, endpoints, gpu, cpu)
            _compare(tokens, prompt, cached, gpu, cpu)


def _error_code(reason: EndReason, status: int | None, error: str | None) -> str | None:
    """Ours, else the reason of an end before its time, else the class of an endpoint's error."""
    if error is not None:
        return error
    if reason not in _IN_TIME:
        return reason.value
    if status is not None and status >= 400:
        return f"upstream_{status // 100}xx"
    return None


def _told(column: Sequence[_Number | None]) -> Sequence[_Number]:
    """Without None."""
    return [number for number in column if number is not None] if None in column else column  # type: ignore[return-value]


def _differences(later: Sequence[float | None], earlier: Sequence[float]) -> list[float]:
    if None in later:
        return [end - start for end, start in zip(later, earlier, strict=True) if end is not None]
    return list(map(sub, later, earlier))


def _between_tokens(
    first: Sequence[float | None], ended: Sequence[float], output: Sequence[int | None]
) -> list[float]:
    """Mean time from one token to the next, where there are several."""
    return [
        (end - start) / (tokens - 1)
        for start, end, tokens in zip(first, ended, output, strict=True)
        if start is not None and tokens and tokens > 1
    ]


def _count_predicted(
    tokens: TokenSeries,
    endpoints: Sequence[EndpointSeries],
    gpu: Sequence[int | None],
    cpu: Sequence[int | None],
) -> None:
    tokens.predicted["gpu"] += sum(filter(None, gpu))
    tokens.predicted["cpu"] += sum(filter(None, cpu))
    for endpoint, gpu_tokens, cpu_tokens in zip(endpoints, gpu, cpu, strict=True):
        if gpu_tokens:
            endpoint.gpu += gpu_tokens
        if cpu_tokens:
            endpoint.cpu += cpu_tokens


def _compare(
    tokens: TokenSeries,
    prompt: Sequence[int | None],
    cached: Sequence[int | None],
    gpu: Sequence[int | None],
    cpu: Sequence[int | None],
) -> None:
    """Prediction against the cached tokens that the endpoint told, where both are there."""
    if None in cached or None in prompt or None in gpu or None in cpu:
        told = [
            (of_prompt, of_cache, of_gpu or 0, of_cpu or 0)
            for of_prompt, of_cache, of_gpu, of_cpu in zip(prompt, cached, gpu, cpu, strict=True)
            if of_prompt is not None and of_cache is not None and not of_gpu is of_cpu is None
        ]
        if not told:
            return
        prompt, cached, gpu, cpu = zip(*told, strict=True)
    predicted = list(map(add, gpu, cpu))
    gaps = list(map(sub, predicted, cached))
    over = sum(map(max, gaps, repeat(0)))
    tokens.compared += sum(predicted)
    tokens.measured += sum(cached)
    tokens.measured_prompt += sum(prompt)
    tokens.gap["over"] += over
    tokens.gap["under"] += over - sum(gaps)
