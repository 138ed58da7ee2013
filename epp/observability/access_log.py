"""The access log: one line a request, with its receipt in short."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from epp.director.record import RequestRecord
from epp.observability.timestamps import Timestamps
from epp.response import Usage
from epp.scheduling.columns import SegmentColumn
from epp.scheduling.contracts import ProfileResult

__all__ = ["AccessLine", "AccessLog", "access_line", "human_line"]

_ANYBODY: Final = "default-flow"  # the fairness id of requests that name none
_LONGEST: Final = 256  # characters of a name that a client chose
_NO_USAGE: Final = Usage()


class AccessLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A line as JSON; what is not known, or is zero where zero says nothing, is left out.

    Never prompts, bodies, headers or credentials. Attributes:
        ts: when the request ended, UTC.
        client, key: address of the caller, and the name of its key.
        ms, first_byte_ms: from the request's head to its end, and to the first byte of the response's body.
        prepare_us, decision_us: the router's own work: parsing and hashing, scheduling.
        retries: kind of each failed attempt.
        prompt_tokens_estimated, predicted_gpu, predicted_cpu: what the router thought, in tokens.
        prompt_tokens, completion_tokens, cached_tokens: what the endpoint reported.
        candidates, total, scores: endpoints that were rated, the last endpoint's total, and its scores.
        arrival, chain: with `accessLog.prefix`: seconds since the epoch at the request's head, and the hash
            of the first prompt's prefix at each full 512 tokens, in hexadecimal.
    """

    ts: str
    request_id: str
    method: str
    path: str
    reason: str
    ms: float
    client: str | None = None
    key: str | None = None
    status: int | None = None
    error: str | None = None
    dropped: str | None = None
    model: str | None = None
    target_model: str | None = None
    adapter: str = ""
    priority: int = 0
    fairness_id: str | None = None
    endpoint: str | None = None
    attempts: int = 0
    retries: tuple[str, ...] = ()
    ejected: tuple[str, ...] = ()
    stream: bool = False
    request_bytes: int = 0
    response_bytes: int = 0
    first_byte_ms: float | None = None
    prepare_us: int = 0
    decision_us: int | None = None
    prompt_tokens_estimated: int | None = None
    predicted_gpu: int | None = None
    predicted_cpu: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    candidates: int | None = None
    total: float | None = None
    scores: dict[str, float] | None = None
    arrival: float | None = None
    chain: tuple[str, ...] = ()


class AccessLog:
    """Renders records into lines for `write`, which puts their ends to them and must not block."""

    def __init__(
        self,
        write: Callable[[list[bytes]], None],
        wall: Callable[[], float],
        *,
        human: bool = False,
        prefix: bool = False,
    ) -> None:
        self._write = write
        self._wall = wall
        self._rendered = _human_bytes if human else msgspec.json.Encoder().encode
        self._prefix = prefix
        self._timestamps = Timestamps()

    def observe(self, records: Iterable[RequestRecord]) -> None:
        """Write the lines of requests that have ended."""
        wall, rendered, prefix, lines = self._wall(), self._rendered, self._prefix, []
        ts = self._timestamps.iso_utc(wall)
        try:
            for record in records:
                line = access_line(record, ts)
                if prefix:
                    line.arrival = round(wall - (record.ended_at - record.arrived), 3)
                    line.chain = tuple([f"{value:016x}" for value in record.chain])
                lines.append(rendered(line))
        finally:  # one that cannot be rendered costs no other its line
            if lines:
                self._write(lines)


def access_line(record: RequestRecord, ts: str) -> AccessLine:
    """What the log says of a request; `ts` is its end as text."""
    arrived, first, decision_s = record.arrived, record.first_byte_at, record.decision_s
    path, model, usage = record.path, record.model, record.usage or _NO_USAGE
    line = AccessLine(
        ts=ts,
        request_id=record.request_id,
        method=record.method,
        path=path if len(path) <= _LONGEST and path.isprintable() else _clean(path),
        reason=record.reason,
        ms=round((record.ended_at - arrived) * 1000, 3),
        client=record.client,
        key=record.key_name,
        status=record.status,
        error=record.error,
        dropped=record.dropped,
        model=model if not model or (len(model) <= _LONGEST and model.isprintable()) else _clean(model),
        adapter=record.adapter,
        priority=record.priority,
        fairness_id=None if record.fairness_id == _ANYBODY else _clean(record.fairness_id),
        endpoint=record.endpoint,
        attempts=record.attempts,
        retries=record.retries,
        ejected=record.ejected,
        stream=record.stream,
        request_bytes=record.request_bytes,
        response_bytes=record.response_bytes,
        first_byte_ms=None if first is None else round((first - arrived) * 1000, 3),
        prepare_us=int(record.prepare_s * 1e6),
        decision_us=None if decision_s is None else int(decision_s * 1e6),
        prompt_tokens_estimated=record.prompt_tokens_estimated,
        predicted_gpu=record.predicted_gpu_tokens,
        predicted_cpu=record.predicted_cpu_tokens,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
    )
    if record.target_model != model:
        line.target_model = _clean(record.target_model) or None
    if record.decision is not None:
        _add_receipt(line, record.decision.primary, record.slot)
    return line


def _add_receipt(line: AccessLine, result: ProfileResult, slot: int | None) -> None:
    candidates = result.candidates
    line.candidates = count = len(candidates)
    if slot is None or not count:
        return
    # Candidates are in the order of slots, mostly without gaps.
    place = slot - candidates[0].slot
    if place >= count or candidates[place].slot != slot:
        place = bisect_left(candidates, slot, key=lambda endpoint: endpoint.slot)
        if place == count or candidates[place].slot != slot:
            return
    line.total = round(result.totals[place], 4)
    line.scores = scores = {}
    bit = 1 << slot
    for column in result.columns:
        values = column.scores
        if type(values) is SegmentColumn:  # one number, without making all of them
            score = values.base
            for mask, value in values.segments:
                if mask & bit:
                    score = value
                    break
        else:
            score = values[place]
        scores[column.scorer] = round(score, 4)


def _clean(name: str) -> str:
    """A name that a client chose, fit for a line: short, printable, without half characters."""
    if name.isprintable() and len(name) <= _LONGEST:
        return name
    return name[:_LONGEST].encode("unicode_escape").decode("ascii")


def _human_bytes(line: AccessLine) -> bytes:
    return human_line(line).encode()


def human_line(line: AccessLine) -> str:
    """The same for people."""
    words = [
        line.ts[11:-1],
        str(line.status or "-"),
        line.method,
        line.path,
        f"{line.ms:.0f}ms",
        *_named(model=line.model or line.target_model, first_byte=_ms(line.first_byte_ms)),
        f"-> {line.endpoint}" if line.endpoint else "",
        *_named(
            prompt=line.prompt_tokens if line.prompt_tokens is not None else line.prompt_tokens_estimated,
            gpu=line.predicted_gpu,
            cpu=line.predicted_cpu,
            cached=line.cached_tokens,
            out=line.completion_tokens,
            total=line.total,
            retries=",".join(line.retries) or None,
            error=line.error,
            reason=None if line.reason == "complete" else line.reason,
            client=line.client,
            key=line.key,
            id=line.request_id,
            chain=len(line.chain) or None,
        ),
    ]
    return " ".join([word for word in words if word])


def _named(**values: str | float | None) -> list[str]:
    return [f"{name}={value}" for name, value in values.items() if value is not None]


def _ms(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}ms"
