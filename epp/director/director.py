"""The director: decides, keeps the books, and tells observers; it never touches a socket."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from epp.director.chains import (
    block_tokens,
    first_chain,
    hash_prompts,
    match_views,
    prompt_tokens,
    text_bytes,
)
from epp.director.exchange import Exchange
from epp.director.exclusions import ruled_out
from epp.director.fallback import go_beyond, next_endpoint
from epp.director.hold import Hold
from epp.director.learning import Learning, claimable
from epp.director.outcome import record_of
from epp.director.reading import is_large, read_request, read_steps
from epp.director.record import RequestRecord
from epp.director.retry import RetryBudget, RetryPolicy, may_repeat
from epp.director.rewriting import Rewriter, resolve
from epp.director.running import RunningRequests
from epp.director.state import State
from epp.director.steps import next_or_result, timed
from epp.director.stored import StoredResponses
from epp.director.subset import within
from epp.director.types import EndReason, Failure, FailureKind, RequestHead, Target
from epp.director.unobserved import Unobserved
from epp.director.views import Tier, predicted_hits
from epp.endpoints.models import Resolution
from epp.endpoints.types import Endpoint
from epp.errors import EppError
from epp.request import ModelRewrites
from epp.request.types import Body, InferenceRequest
from epp.response.types import Usage
from epp.scheduling.contracts import Cycle, Decision

__all__ = ["Director", "Limits"]

_OK: Final = range(200, 300)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one request may cost. Zero `inflight_per_endpoint` means no limit."""

    inflated_bytes: int = 256 * 1024 * 1024
    inflight_per_endpoint: int = 0


class Director:
    """One instance a pool of endpoints; see the package for the order of calls."""

    def __init__(
        self,
        state: State,
        *,
        timer: Callable[[], float],
        retry: RetryPolicy | None = None,
        limits: Limits | None = None,
        observers: Sequence[Callable[[RequestRecord], None]] = (),
        rewriter: Rewriter | None = None,
    ) -> None:
        """`timer` gives seconds for durations shown to operators; decisions never depend on it."""
        self.state = state
        self.observers = list(observers)
        self._learning = Learning(state.ratios)
        self.counter_ratios = self._learning.counter_ratios
        self._timer = timer
        self._retry = retry or RetryPolicy()
        self.budget = RetryBudget(self._retry)  # of repeats after a 500 or 503, a gateway's among them
        self._limits = limits or Limits()
        self._rewriter = rewriter or Rewriter(ModelRewrites(), lambda: 0.0, 0)
        self.running = RunningRequests()
        self._stored = StoredResponses()
        self.unobserved = Unobserved(state.ledger, self._release)
        self.tells_chains = False  # in records: set it where an observer wants the hashes of prompts

    def adopt(self, state: State) -> None:
        """Decide from `state` from the next request on; those under way keep the one they began with."""
        self.state = state

    def open(self, head: RequestHead, now: float) -> Exchange:
        """Begin a request's life; from here on `on_end` must be called exactly once."""
        self.budget.on_request(now)
        return Exchange(head, now, self.state, self.state.admission.priority(head.headers))

    def prepare(
        self, exchange: Exchange, body: Body | None, now: float, *, model: str | None = None
    ) -> Generator[None, None, None]:
        """Parse and hash `body` (as it came, maybe compressed); yields between steps if it is large.

        None: nobody reads the body, and `model` is all that is known of it.

        Raises:
            BadRequestError, PayloadTooLargeError, UnsupportedEncodingError, ModelNotFoundError.
        """
        del now
        started = self._timer()
        limit = self._limits.inflated_bytes
        exchange.body_bytes = len(body or b"")
        if body is not None and is_large(exchange.head, body):
            request = yield from timed(exchange, read_steps(exchange.head, body, limit), self._timer)
            started = self._timer()
        else:
            request = read_request(exchange.head, body, limit, model)
        exchange.request = request
        if self._rewriter.rules.active:
            exchange.prepare_s += self._timer() - started
            yield from timed(exchange, self._rewriter.steps(exchange, body), self._timer)
            started = self._timer()
        resolution = exchange.resolution = resolve(self.state, request, exchange.rewrite)
        if request.prompts:
            sizes = exchange.state.block_sizes
            steps = hash_prompts(request, resolution.base, resolution.adapter, sizes)
            chains = next_or_result(steps)  # mostly in one step
            if chains is None:
                exchange.prepare_s += self._timer() - started
                yield
                chains = yield from timed(exchange, steps, self._timer)
                started = self._timer()
            exchange.chains = chains
            ratio = self.state.ratios.bytes_per_token(resolution.model, chains.family)
            exchange.text_bytes = text_bytes(request, chains)
            exchange.prompt_tokens = prompt_tokens(chains, exchange.text_bytes, ratio)
        # The hashes stand for prompts and salt from here on: a stream of minutes must not keep their text.
        if request.prompts or request.salt:
            exchange.request = msgspec.structs.replace(request, prompts=(), salt="")
        exchange.prepare_s += self._timer() - started

    def schedule(self, exchange: Exchange, now: float) -> Decision:
        """Decide, without taking anything: the ledger and the index stay as they are.

        Raises:
            SaturatedError, NoEndpointsError.
        """
        started = self._timer()
        try:
            decision = exchange.state.scheduler.schedule(self._cycle(exchange, now))
        finally:
            exchange.decision_s = (exchange.decision_s or 0.0) + self._timer() - started
        exchange.decision = decision
        exchange.order = iter(decision.primary.order)
        return decision

    def _cycle(self, exchange: Exchange, now: float) -> Cycle:
        request = exchange.request
        if request is None:
            raise AssertionError("prepare comes before pick")
        resolution = exchange.resolution = resolve(self.state, request, exchange.rewrite)
        chains, state = exchange.chains, exchange.state
        candidates, full, held = self._candidates(exchange, request, resolution, now)
        exchange.ruled_out = ruled_out(state, resolution, candidates, now, held=held, subset=exchange.subset)
        if chains is not None:
            exchange.block_tokens = block_tokens(chains, state.ratios, resolution.model)
            exchange.matches = match_views(state.index, state.view_groups, chains, exchange.block_tokens)
        chain, chain_block_tokens = first_chain(chains, exchange.block_tokens)
        return Cycle(
            request=request,
            model=resolution.model,
            adapter=resolution.adapter,
            prompt_tokens=exchange.prompt_tokens,
            candidates=candidates,
            pool_version=self.state.table.pool.version,
            matches=exchange.matches,
            ledger=self.state.ledger,
            now=now,
            full=full,
            headers=exchange.head.headers,
            chain=chain,
            chain_block_tokens=chain_block_tokens,
        )

    def _candidates(
        self, exchange: Exchange, request: InferenceRequest, resolution: Resolution, now: float
    ) -> tuple[tuple[Endpoint, ...], bool, bool]:
        """As of `Candidates.find`, and whether the one candidate holds the stored response that is meant."""
        holder = self._stored.holder(request.stored_response, self.state.table.pool, now)
        if holder is not None:
            return within((holder,), exchange.subset), False, True
        found, full = exchange.state.candidates.find(resolution, exchange.priority, now)
        return within(found, exchange.subset), full and exchange.subset is None, False

    def pick(self, exchange: Exchange, now: float) -> Target:
        """Schedule, raise the ledger and claim the prefix, in one step.

        Raises:
            SaturatedError, NoEndpointsError.
        """
        decision = self.schedule(exchange, now)
        model = exchange.resolution.model if exchange.resolution else ""
        named = exchange.request.model if exchange.request else None
        exchange.counted_as = self.running.enter(named, model, exchange.priority)
        endpoint, state = next(exchange.order), exchange.state
        if state.shadow is not None:
            state.shadow.compare(
                state.index, decision.cycle, exchange.chains, exchange.block_tokens, endpoint
            )
        return self._dispatch(exchange, endpoint, now)

    def commit(self, exchange: Exchange, decision: Decision, endpoint: Endpoint) -> None:
        """Note in the index alone that somebody else sends this request to `endpoint`."""
        chains = claimable(exchange)
        if chains is not None:
            exchange.state.claims.record(endpoint, chains, exchange.block_tokens)
        exchange.state.scheduler.on_picked(decision, endpoint, followed=False)

    def _dispatch(self, exchange: Exchange, endpoint: Endpoint, now: float, *, fresh: bool = False) -> Target:
        self.state.health.on_pick(endpoint, now)
        target = self._take(exchange, endpoint, fresh=fresh)
        exchange.attempts += 1
        exchange.executions += 1
        exchange.tried.add(endpoint.address)
        return target

    def _take(self, exchange: Exchange, endpoint: Endpoint, *, fresh: bool = False) -> Target:
        """Raise the ledger and claim the prefix for `endpoint`."""
        exchange.predicted = self._predict(exchange, endpoint)
        cached = sum(exchange.predicted.values())
        exchange.hold = exchange.state.claims.take(
            endpoint,
            claimable(exchange),
            exchange.block_tokens,
            uncached_tokens=max(0, exchange.prompt_tokens - cached),
            output_tokens=self._learning.expected_output(exchange),
        )
        if exchange.decision is not None and not fresh:
            exchange.state.scheduler.on_picked(exchange.decision, endpoint)
        spec = endpoint.spec
        exchange.target = Target(
            endpoint.address, spec.scheme, spec.host, spec.port, endpoint.slot, fresh_connection=fresh
        )
        return exchange.target

    def on_served(self, exchange: Exchange, address: str) -> None:
        """The gateway says who gave the answer: ledger and claim move there if it is not the pick.

        An address that is none of the pool's holds nothing, and the record names no endpoint.
        """
        hold = exchange.hold
        if hold is None or hold.endpoint.address == address:
            return
        exchange.state.claims.take_back(hold)
        exchange.hold = exchange.target = None
        there = self.state.table.pool.by_address.get(address)
        if there is not None:
            self._take(exchange, there)

    def _predict(self, exchange: Exchange, endpoint: Endpoint) -> dict[Tier, int]:
        if exchange.chains is None:
            return {}
        return predicted_hits(exchange.state.views, endpoint, exchange.matches, exchange.prompt_tokens)

    def next_after_failure(self, exchange: Exchange, failure: Failure, now: float) -> Target | None:
        """The next execution after one that failed before a byte went to the client; None: stop."""
        hold = exchange.hold
        if hold is None or exchange.request is None:
            raise AssertionError("nothing was dispatched")
        exchange.state.claims.take_back(hold)
        exchange.hold = None
        exchange.failures.append(failure)
        if len(exchange.failures) == 1:
            go_beyond(exchange, now)
        if failure.kind is FailureKind.CONNECT:
            exchange.executions -= 1
        self._mark(exchange, hold.endpoint, failure, now)
        if exchange.decision is not None and failure.kind is not FailureKind.CLOSED_REUSED:
            exchange.state.scheduler.on_ended(exchange.decision, now, None)
        repeat = may_repeat(
            failure,
            replay_safe=exchange.request.replay_safe,
            executions=exchange.executions,
            policy=self._retry,
        )
        return self._repeat(exchange, hold.endpoint, failure, now) if repeat else None

    def _mark(self, exchange: Exchange, endpoint: Endpoint, failure: Failure, now: float) -> None:
        """Passive health: what a failure says of the endpoint."""
        health = self.state.health
        if failure.kind in (FailureKind.CONNECT, FailureKind.BROKEN):
            ejected = health.on_connect_failure(endpoint, now)
        elif failure.kind is FailureKind.ENGINE_DOWN:
            ejected = health.on_engine_down(endpoint, now)
        elif failure.kind is FailureKind.FIRST_BYTE_TIMEOUT:
            ejected = health.on_first_byte_timeout(endpoint, now)
        else:
            ejected = False
        if ejected:
            exchange.ejected.append(endpoint.address)

    def _repeat(self, exchange: Exchange, last: Endpoint, failure: Failure, now: float) -> Target | None:
        if failure.kind is FailureKind.CLOSED_REUSED:
            return self._dispatch(exchange, last, now, fresh=True)
        endpoint = next_endpoint(exchange, self.state.table.pool)
        # The budget comes last: it is not spent where there is nobody to send to.
        if endpoint is None or not self.budget.allows(failure, now):
            return None
        return self._dispatch(exchange, endpoint, now)

    def on_response_head(self, exchange: Exchange, status: int, now: float) -> None:
        """The head that will be relayed came: a 2xx confirms the claim, anything else takes it back."""
        exchange.status = status
        hold = exchange.hold
        if hold is None:
            return
        self.state.health.on_response(hold.endpoint, now)
        if status in _OK:
            hold.confirmed = True
        else:
            exchange.state.claims.forget(hold)

    def response_headers(self, exchange: Exchange) -> tuple[tuple[str, str], ...]:
        """Headers that plugins add to the answer of the endpoint that gave it."""
        if exchange.decision is None or exchange.hold is None:
            return ()
        return exchange.state.scheduler.response_headers(exchange.decision, exchange.hold.endpoint)

    def on_stored_response(self, exchange: Exchange, response_id: str, now: float) -> None:
        """The answer has named the response that its endpoint stores."""
        if exchange.hold is not None:
            self._stored.note(response_id, exchange.hold.endpoint, now)

    def on_first_byte(self, exchange: Exchange, now: float) -> None:
        """The first byte of the body came: the prefill is done."""
        if exchange.first_byte_at is None:
            exchange.first_byte_at = now
            if exchange.hold is not None:
                exchange.state.claims.prefill_done(exchange.hold)
                if exchange.decision is not None and exchange.hold.confirmed:
                    exchange.state.on_first_token(exchange.decision, now)

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
        """Release everything, learn from `usage`, tell observers; once. UNOBSERVED: no answer was seen."""
        if exchange.ended:
            return
        exchange.ended = True
        if exchange.hold is not None and reason in (EndReason.COMPLETE, EndReason.UNOBSERVED):
            self.unobserved.learn(exchange, now)
            exchange.hold.confirmed |= reason is EndReason.UNOBSERVED  # most requests succeed
        self._release(exchange, now, usage)
        chains = self.tells_chains
        self._tell(record_of(exchange, reason, now, usage, response_bytes, error, with_chain=chains))

    def on_unobserved(self, exchange: Exchange, now: float) -> None:
        """Nobody will say how it ends: tell observers now, release it when it is estimated to be over."""
        if exchange.ended:
            return
        exchange.ended = True
        if exchange.hold is None:
            self._release(exchange, now)
        else:
            if exchange.status is None:
                exchange.hold.confirmed = True  # most requests succeed
            self.unobserved.add(exchange, exchange.hold, now)
        chains = self.tells_chains
        self._tell(record_of(exchange, EndReason.UNOBSERVED, now, None, 0, None, with_chain=chains))

    def _tell(self, record: RequestRecord) -> None:
        for observer in self.observers:
            observer(record)

    def _release(self, exchange: Exchange, now: float, usage: Usage | None = None) -> None:
        output_tokens = usage.completion_tokens if usage else None
        if exchange.counted_as is not None:
            self.running.leave(exchange.counted_as)
        if exchange.hold is not None:
            self._learning.learn(exchange, usage)
            self._finish(exchange, exchange.hold, output_tokens)
        if exchange.decision is not None:
            exchange.state.on_ended(exchange.decision, now, output_tokens)

    def _finish(self, exchange: Exchange, hold: Hold, output_tokens: int | None) -> None:
        there = self.state.table.endpoint(hold.endpoint.address)
        exchange.state.claims.finish(
            hold,
            claimable(exchange),
            exchange.block_tokens,
            self._learning.worth(exchange),
            output_tokens,
            same_incarnation=there is not None and there.incarnation == hold.endpoint.incarnation,
        )
