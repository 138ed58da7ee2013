"""The retry contract for the fast lane: as `executions`, but driven by the pool's callbacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from epp.director import Director, Exchange, Failure, Target
from epp.errors import EppError
from epp.http import Origin, ResponseHead, UpstreamExchange, UpstreamFailure, UpstreamPool, UpstreamRequest
from epp.proxy.answer import BUFFER_LIMIT
from epp.proxy.verdict import RETRYABLE_STATUSES, error_for, failure_of_exchange, failure_of_status

__all__ = ["AnswerReceiver", "FastExecutions"]


class AnswerReceiver(Protocol):
    """Who relays the answer.

    It gets `on_answer`, any number of `on_data` and one of `on_end` and `on_cut`; or `on_none` or `on_fault`.
    """

    def on_answer(self, target: Target, head: ResponseHead) -> None:
        """This answer is the one; its body has begun, or it has none."""
        ...

    def on_data(self, data: bytes) -> None:
        """Bytes of its body."""
        ...

    def on_end(self) -> None:
        """It is complete."""
        ...

    def on_cut(self, failure: UpstreamFailure) -> None:
        """It will not be complete."""
        ...

    def on_none(self, error: EppError) -> None:
        """No endpoint has an answer."""
        ...

    def on_fault(self, error: Exception) -> None:
        """An exception that nobody expected."""
        ...


@dataclass(frozen=True, slots=True)
class _Kept:
    """A complete answer that is given if there will be no better one."""

    target: Target
    head: ResponseHead
    body: bytes


class FastExecutions:
    """The sink of one execution after another; see `Executions` for the contract."""

    __slots__ = (
        "_chunks", "_director", "_exchange", "_head", "_kept", "_now", "_paused", "_pool", "_receiver",
        "_relaying", "_request", "_size", "_target", "_upstream",
    )  # fmt: skip

    def __init__(
        self,
        director: Director,
        pool: UpstreamPool,
        exchange: Exchange,
        now: Callable[[], float],
        receiver: AnswerReceiver,
    ) -> None:
        self._director = director
        self._pool = pool
        self._exchange = exchange
        self._now = now
        self._receiver = receiver
        self._request: UpstreamRequest | None = None
        self._target: Target | None = None
        self._kept: _Kept | None = None
        self._relaying = False
        self._paused = False
        self._upstream: UpstreamExchange | None = None
        self._begin()

    def _begin(self) -> None:
        self._head: ResponseHead | None = None
        self._chunks: list[bytes] = []
        self._size = 0

    def start(self, request: UpstreamRequest) -> None:
        """Send `request` to the endpoint of the director's choice, and on as the contract says.

        Raises:
            SaturatedError, NoEndpointsError: nobody can take it.
        """
        self._request = request
        self._send(request, self._director.pick(self._exchange, self._now()))

    def _send(self, request: UpstreamRequest, target: Target) -> None:
        self._target = target
        origin = Origin(target.scheme, target.host, target.port)
        self._upstream = self._pool.send(origin, request, self, fresh=target.fresh_connection)

    def pause(self) -> None:
        """The client takes no more for a while."""
        if self._upstream is not None:
            self._upstream.pause()

    def resume(self) -> None:
        """The client takes more."""
        if self._upstream is not None:
            self._upstream.resume()

    def release(self) -> None:
        """Close the connection of an execution that is not over; nothing is called any more."""
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None

    # What the pool calls.

    def on_head(self, head: ResponseHead) -> None:
        """The final head came."""
        self._head = head

    def on_data(self, data: bytes) -> None:
        """Bytes of the body came."""
        if self._relaying:
            self._receiver.on_data(data)
            return
        head = self._answered()
        if head.status not in RETRYABLE_STATUSES:
            self._relay(head)
            self._receiver.on_data(data)
            return
        self._chunks.append(data)
        self._size += len(data)
        if self._size > BUFFER_LIMIT:
            self._relay(head)

    def on_end(self) -> None:
        """The response is complete."""
        self._upstream = None
        if self._relaying:
            self._receiver.on_end()
            return
        head = self._answered()
        outcome = self._judge(head, complete=True)
        if outcome is not None:
            self._kept = _Kept(self._dispatched(), head, b"".join(self._chunks))
            self._go_on(outcome)
            return
        self._relay(head)
        self._receiver.on_end()

    def on_failure(self, failure: UpstreamFailure) -> None:
        """The response will not be complete."""
        self._upstream = None
        if self._relaying:
            self._receiver.on_cut(failure)
        elif self._head is not None and self._head.status in RETRYABLE_STATUSES:
            self._go_on(self._judge(self._head, complete=False) or failure_of_exchange(failure))
        else:
            self._go_on(failure_of_exchange(failure))

    def _answered(self) -> ResponseHead:
        if self._head is None:
            raise AssertionError("the pool gives a head before a body")
        return self._head

    def _dispatched(self) -> Target:
        if self._target is None:
            raise AssertionError("nothing was sent")
        return self._target

    def _judge(self, head: ResponseHead, *, complete: bool) -> Failure | None:
        if head.status not in RETRYABLE_STATUSES:
            return None
        return failure_of_status(head.status, b"".join(self._chunks), complete=complete)

    def _relay(self, head: ResponseHead) -> None:
        self._relaying = True
        self._request = None  # its body need not wait for the end of a long answer
        chunks, self._chunks = self._chunks, []
        self._receiver.on_answer(self._dispatched(), head)
        if chunks:
            self._receiver.on_data(b"".join(chunks))

    def _go_on(self, outcome: Failure | EppError) -> None:
        """Try the next endpoint; where there is none, give what there is."""
        try:
            self._try_next(outcome)
        except Exception as error:  # noqa: BLE001  the pool would only report it, and the client wait for ever
            self._receiver.on_fault(error)

    def _try_next(self, outcome: Failure | EppError) -> None:
        self._begin()
        following = None
        if not isinstance(outcome, EppError):
            following = self._director.next_after_failure(self._exchange, outcome, self._now())
        if following is not None and self._request is not None:
            self._send(self._request, following)
        elif self._kept is not None:
            self._give(self._kept)
        else:
            self._receiver.on_none(outcome if isinstance(outcome, EppError) else error_for(outcome))

    def _give(self, kept: _Kept) -> None:
        self._target = kept.target
        self._chunks = [kept.body] if kept.body else []
        self._relay(kept.head)
        self._receiver.on_end()
