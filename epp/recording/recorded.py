"""A director and an upkeep that put on record what they are told and what they decide.

They are used in place of the plain ones only while a recording is made, which therefore cost nothing else.
"""

import hashlib
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from epp.director.chains import PromptChains
from epp.director.director import Director, Limits
from epp.director.exchange import Exchange
from epp.director.record import RequestRecord
from epp.director.retry import RetryBudget, RetryPolicy
from epp.director.rewriting import Rewriter
from epp.director.state import State
from epp.director.stored import LONGEST_RESPONSE_ID
from epp.director.types import EndReason, Failure, RequestHead, Target
from epp.director.upkeep import Upkeep
from epp.endpoints.table import TableChanges
from epp.endpoints.types import Endpoint, EndpointMetrics, EndpointSpec, ModelInfo
from epp.errors import EppError
from epp.recording import events as e
from epp.recording.tape import Tape
from epp.request.types import Body
from epp.response.types import Usage
from epp.scheduling.contracts import Decision

__all__ = ["RecordedDirector", "RecordedUpkeep", "numbers_of"]

_CREDENTIALS: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "api-key", "x-api-key", "x-goog-api-key"}
)


class _ReadHeaders(Mapping[str, str]):
    """Headers that remember which of them were asked for."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers
        self.read: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        value = self._headers[name]
        self.read[name] = value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)


class _WatchedOrder(Iterator[Endpoint]):
    """The order of a decision; `looked` is called before somebody reads on in it."""

    def __init__(self, order: Iterator[Endpoint], looked: Callable[[], None]) -> None:
        self._order = order
        self._looked = looked

    def __next__(self) -> Endpoint:
        self._looked()
        return next(self._order)


class _RecordedBudget(RetryBudget):
    """Writes what others spend of it."""

    def __init__(self, tape: Tape, policy: RetryPolicy) -> None:
        super().__init__(policy)
        self._tape = tape

    def spend(self, count: int, now: float) -> None:
        """A gateway has made `count` repeats."""
        self._tape.write(e.Spent(count, now))
        super().spend(count, now)


class RecordedDirector(Director):
    """Writes each call, and what came of it, to `tape`."""

    def __init__(
        self,
        tape: Tape,
        state: State,
        *,
        timer: Callable[[], float],
        retry: RetryPolicy | None = None,
        limits: Limits | None = None,
        observers: Sequence[Callable[[RequestRecord], None]] = (),
        rewriter: Rewriter | None = None,
    ) -> None:
        super().__init__(
            state, timer=timer, retry=retry, limits=limits, observers=observers, rewriter=rewriter
        )
        self.tape = tape
        self.budget = _RecordedBudget(tape, retry or RetryPolicy())
        self._inside = False  # a method of the director's own asks

    def open(self, head: RequestHead, now: float) -> Exchange:
        """Begin a request's life."""
        watched = msgspec.structs.replace(head, headers=_ReadHeaders(head.headers))
        exchange = super().open(watched, now)
        exchange.number = self.tape.number()
        self.tape.write(e.Opened(exchange.number, now, head.request_id, exchange.priority))
        return exchange

    def prepare(
        self, exchange: Exchange, body: Body | None, now: float, *, model: str | None = None
    ) -> Generator[None, None, None]:
        """Parse and hash."""
        if exchange.number < 0:  # a question, which nobody opens
            exchange.number = self.tape.number()
            exchange.head = msgspec.structs.replace(
                exchange.head, headers=_ReadHeaders(exchange.head.headers)
            )
            told = exchange.head.request_id, exchange.priority
            self.tape.write(e.Opened(exchange.number, exchange.arrived, *told, asked=True))
        yield from super().prepare(exchange, body, now, model=model)
        self.tape.write(_prepared(exchange, self.tape))

    def schedule(self, exchange: Exchange, now: float) -> Decision:
        """Decide, without taking anything."""
        if self._inside:
            return super().schedule(exchange, now)
        _begin_to_read(exchange)
        write = partial(self._write_scheduled, exchange, now)
        try:
            decision = super().schedule(exchange, now)
        except EppError as error:
            write(error=error.code)
            raise
        write(numbers=numbers_of(decision))
        self._watch(exchange)
        return decision

    def _write_scheduled(
        self, exchange: Exchange, now: float, *, error: str = "", numbers: e.Numbers | None = None
    ) -> None:
        self.tape.write(e.Scheduled(exchange.number, now, _headers_read(exchange, self.tape), error, numbers))

    def pick(self, exchange: Exchange, now: float) -> Target:
        """Schedule and take."""
        _begin_to_read(exchange)
        self._inside = True
        try:
            target = super().pick(exchange, now)
        except EppError as error:
            self.tape.write(_picked(exchange, self.tape, now, error=error.code))
            raise
        finally:
            self._inside = False
        self.tape.write(_picked(exchange, self.tape, now, endpoint=target.address))
        self._watch(exchange)
        return target

    def _watch(self, exchange: Exchange) -> None:
        """Who reads on in an order draws random numbers, maybe."""

        def looked() -> None:
            if not self._inside:
                self.tape.write(e.LookedOn(exchange.number))

        exchange.order = _WatchedOrder(exchange.order, looked)

    def commit(self, exchange: Exchange, decision: Decision, endpoint: Endpoint) -> None:
        """Note in the index alone."""
        self.tape.write(e.Committed(exchange.number, endpoint.address))
        super().commit(exchange, decision, endpoint)

    def on_served(self, exchange: Exchange, address: str) -> None:
        """Who gave the answer."""
        self.tape.write(e.Served(exchange.number, address))
        super().on_served(exchange, address)

    def next_after_failure(self, exchange: Exchange, failure: Failure, now: float) -> Target | None:
        """The next execution."""
        self._inside = True
        try:
            following = super().next_after_failure(exchange, failure, now)
        finally:
            self._inside = False
        address = following.address if following is not None else ""
        self.tape.write(e.Failed(exchange.number, now, failure.kind, failure.written, address))
        return following

    def on_response_head(self, exchange: Exchange, status: int, now: float) -> None:
        """The head came."""
        self.tape.write(e.ResponseHead(exchange.number, now, status))
        super().on_response_head(exchange, status, now)

    def on_stored_response(self, exchange: Exchange, response_id: str, now: float) -> None:
        """The answer has named a response."""
        if len(response_id) <= LONGEST_RESPONSE_ID:
            self.tape.write(e.Stored(exchange.number, now, _digest(response_id, self.tape)))
        super().on_stored_response(exchange, response_id, now)

    def on_first_byte(self, exchange: Exchange, now: float) -> None:
        """The first byte came."""
        self.tape.write(e.FirstByte(exchange.number, now))
        super().on_first_byte(exchange, now)

    def on_end(
        self,
        exchange: Exchange,
        reason: EndReason,
        now: float,
        *,
        usage: Usage | None = None,
        response_bytes: int = 0,
        error: EppError | None = None,
    ) -> None:
        """It ended."""
        if not exchange.ended:
            self.tape.write(e.Ended(exchange.number, now, reason, usage, response_bytes))
        super().on_end(exchange, reason, now, usage=usage, response_bytes=response_bytes, error=error)

    def on_unobserved(self, exchange: Exchange, now: float) -> None:
        """Nobody will say."""
        if not exchange.ended:
            self.tape.write(e.Unseen(exchange.number, now))
        super().on_unobserved(exchange, now)


class RecordedUpkeep(Upkeep):
    """Writes each call to `tape`."""

    def __init__(self, tape: Tape, director: Director, staleness_s: Callable[[], float]) -> None:
        super().__init__(director, staleness_s)
        self.tape = tape

    def sync_endpoints(self, specs: Iterable[EndpointSpec], now: float) -> TableChanges:
        """The complete set of endpoints."""
        specs = tuple(specs)
        self.tape.keep_only(frozenset(spec.address for spec in specs))
        self.tape.write(e.Endpoints(now, tuple(map(_spec, specs))))
        return super().sync_endpoints(specs, now)

    def on_metrics(self, address: str, incarnation: int, metrics: EndpointMetrics, now: float) -> None:
        """A scrape succeeded."""
        self.tape.scraped(address, incarnation, metrics, now)
        super().on_metrics(address, incarnation, metrics, now)

    def on_scrape_failure(self, address: str, incarnation: int, *, refused: bool, now: float) -> None:
        """A scrape failed."""
        self.tape.write(e.ScrapeFailed(now, address, incarnation, refused))
        super().on_scrape_failure(address, incarnation, refused=refused, now=now)

    def on_models(self, address: str, incarnation: int, models: tuple[ModelInfo, ...], now: float) -> None:
        """`/v1/models` answered."""
        self.tape.write(e.Models(now, address, incarnation, tuple((m.id, m.parent, m.root) for m in models)))
        super().on_models(address, incarnation, models, now)

    def on_cache_lost(self, address: str, *, gpu_only: bool) -> None:
        """The endpoint was told to forget."""
        self.tape.write(e.CacheLost(address, gpu_only))
        super().on_cache_lost(address, gpu_only=gpu_only)

    def on_token_ratio(self, model: str, bytes_per_token: float) -> None:
        """`/tokenize` told."""
        self.tape.write(e.TokenRatio(model, bytes_per_token))
        super().on_token_ratio(model, bytes_per_token)

    def tick(self, now: float) -> bool:
        """Periodic work."""
        self.tape.write(e.Tick(now))
        self.tape.passed(now)
        return super().tick(now)


def numbers_of(decision: Decision) -> e.Numbers:
    """What a decision came to, exactly."""
    result = decision.primary
    slots = array("I", [endpoint.slot for endpoint in result.candidates])
    columns = tuple((c.scorer, c.weight, array("d", c.scores).tobytes()) for c in result.columns)
    return e.Numbers(result.profile, slots.tobytes(), array("d", result.totals).tobytes(), columns)


def _picked(exchange: Exchange, tape: Tape, now: float, *, endpoint: str = "", error: str = "") -> e.Picked:
    subset = tuple(sorted(exchange.subset)) if exchange.subset is not None else None
    decided = exchange.decision is not None and not error
    numbers = numbers_of(exchange.decision) if decided and exchange.decision else None
    return e.Picked(exchange.number, now, _headers_read(exchange, tape), subset, endpoint, error, numbers)


def _prepared(exchange: Exchange, tape: Tape) -> e.Prepared:
    request, chains = exchange.request, exchange.chains
    if request is None:
        raise AssertionError("nothing was prepared")
    response = request.stored_response
    return e.Prepared(
        exchange.number,
        request.api,
        request.model,
        request.stream,
        exchange.body_bytes,
        request.max_output_tokens,
        request.replay_safe,
        None if response is None else _digest(response, tape),
        exchange.prompt_tokens,
        exchange.text_bytes,
        None if chains is None else _folded(chains, tape),
        chains is not None and chains.token_ids,
        None if chains is None else chains.family,
        0 if chains is None else chains.data_bytes,
        "" if exchange.rewrite is None else exchange.rewrite.target,
    )


def _folded(chains: PromptChains, tape: Tape) -> tuple[tuple[int, tuple[e.Folded, ...]], ...]:
    return tuple(
        (size, tuple(map(tape.folder.fold, of_prompts))) for size, of_prompts in chains.by_block_bytes.items()
    )


def _headers_read(exchange: Exchange, tape: Tape) -> dict[str, str]:
    """What the decision read of the headers; credentials only so far that equal ones are seen to be equal."""
    headers = exchange.head.headers
    read = headers.read if isinstance(headers, _ReadHeaders) else {}
    return {name: _digest(value, tape) if name in _CREDENTIALS else value for name, value in read.items()}


def _begin_to_read(exchange: Exchange) -> None:
    headers = exchange.head.headers
    if isinstance(headers, _ReadHeaders):
        headers.read.clear()


def _digest(text: str, tape: Tape) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=tape.key).hexdigest()


def _spec(spec: EndpointSpec) -> e.Spec:
    labels = dict(spec.labels)
    return e.Spec(spec.scheme, spec.host, spec.port, labels, spec.uid, spec.name, spec.namespace)
