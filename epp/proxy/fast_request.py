"""One relayed request without ASGI: driven by the callbacks of its client's and its endpoint's connections.

It does what `RelayedRequest` does, with the same rules for heads, errors and ends; no task, queue or lock
stands between a chunk of the endpoint and the client's socket.
"""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Final, Protocol

import msgspec

from epp.director import EndReason, Exchange, RequestHead, Target
from epp.errors import EppError, FirstByteTimeoutError, InternalError, RequestTimeoutError, ShuttingDownError
from epp.http import Headers, ResponseHead, UpstreamFailure
from epp.http.collected import Collected
from epp.http.patience import PatientTimer
from epp.proxy.arrival import arrival_of
from epp.proxy.asgi import Scope
from epp.proxy.ends import CLIENT_GONE, COMPLETE, End, ended_by
from epp.proxy.errors import render_error
from epp.proxy.fast_executions import FastExecutions
from epp.proxy.heads import is_event_stream, upstream_request
from epp.proxy.intake import BodyHold, too_large
from epp.proxy.observed import ObservedAnswer
from epp.proxy.relay import Relay
from epp.proxy.renaming import RenamingWriter, names_of, with_rewritten_body
from epp.proxy.surroundings import Surroundings
from epp.proxy.transport import ClientTransport
from epp.proxy.turns import Turns, one_by_one
from epp.proxy.verdict import CUT_EVENT, reason_of_cut
from epp.proxy.writer import AnswerWriter
from epp.request import Body

__all__ = ["ClientConnection", "FastRequest", "FastTurns", "begin_request"]

logger = logging.getLogger("epp.proxy")

_NO_HEAD: Final = "an answer begins with its head"
_PREPARED: Final = object()
_NO_STEPS: Final[Iterator[None]] = iter(())


class ClientConnection(Protocol):
    """What a request needs of the connection that it came on."""

    transport: ClientTransport
    loop: asyncio.AbstractEventLoop

    @property
    def default_headers(self) -> Headers:
        """`server` and `date` of an answer that begins now."""
        ...

    @property
    def write_paused(self) -> bool:
        """The client does not take what was written."""
        ...

    def on_response_complete(self) -> None:
        """The answer is written; the next request may begin."""
        ...


class FastTurns:
    """The steps that requests under way together take together."""

    __slots__ = ("ending", "preparing", "sending")

    def __init__(self) -> None:
        self.preparing = Turns(one_by_one(FastRequest.prepare))
        self.sending = Turns(one_by_one(FastRequest.send))
        self.ending = Turns(one_by_one(FastRequest.tell_end))


class FastRequest(msgspec.Struct, eq=False, weakref=True):
    """One request; also what the connection knows as its cycle.

    Attributes:
        keep_alive: the connection serves on after the answer.
        response_started: a byte was, or is about to be, written.
        response_complete: the answer is written.
        disconnected: nothing more can be written.
    """

    _relay: Relay
    _around: Surroundings
    _turns: FastTurns
    _connection: ClientConnection
    _scope: Scope
    _request_id: bytes
    _trusted: bool
    _exchange: Exchange
    _hold: BodyHold
    _received: Collected
    _arrived: float  # time of the loop
    keep_alive: bool
    response_started: bool = False
    response_complete: bool = False
    disconnected: bool = False
    _body: Body = b""
    _steps: Iterator[None] = _NO_STEPS
    _body_read: bool = False
    _executions: FastExecutions | None = None
    _writer: AnswerWriter | RenamingWriter | None = None
    _answer_head: ResponseHead | None = None
    _observed: ObservedAnswer | None = None
    _stalled_since: float | None = None
    _timer: PatientTimer | None = None
    _end: End | None = None
    _ended_at: float = 0.0

    def begin(self, head: RequestHead, refusal: EppError | None) -> None:
        """The head has come; `refusal` is why the request may not go on."""
        refusal = refusal or self._relay.begin(self)
        max_bytes = self._around.settings.max_request_bytes
        if refusal is not None:
            self._fail(refusal)
        elif int(head.headers.get("content-length", 0)) > max_bytes:
            self._fail(too_large(max_bytes))

    # What the client's connection calls.

    def on_body(self, data: bytes) -> None:
        """The next piece of the request's body."""
        if self._end is not None:
            return
        max_bytes = self._around.settings.max_request_bytes
        if self._received.size + len(data) > max_bytes:
            self._fail(too_large(max_bytes))
            return
        try:
            self._hold.take(len(data))
        except EppError as error:
            self._fail(error)
        else:
            self._received.add(data)

    def on_body_end(self) -> None:
        """The body is complete."""
        if self._end is not None:
            return
        self._body_read = True
        total_s = self._around.settings.total_timeout_s
        if total_s:
            left_s = self._arrived + total_s - self._connection.loop.time()
            self._timer = PatientTimer(self._connection.loop, left_s, self._on_total_timeout)
        self._body = self._received.take()
        self._steps = self._around.director.prepare(self._exchange, self._body, self._around.now())
        self._turns.preparing.add(self)

    def on_body_timeout(self) -> None:
        """The body did not arrive in time."""
        self._fail(RequestTimeoutError("the body of the request did not arrive in time"))

    def disconnect(self) -> None:
        """The client left, or its connection can no longer be used."""
        self.disconnected = True
        self._finish(CLIENT_GONE)

    def abort(self) -> None:
        """Cut the connection, so that the client can tell that its answer is not complete."""
        self.disconnected = True
        self._finish(CLIENT_GONE)
        self._connection.transport.cut()

    def pause_writing(self) -> None:
        """The client does not take what was written."""
        self._stalled_since = self._connection.loop.time()
        if self._executions is not None:
            self._executions.pause()

    def resume_writing(self) -> None:
        """The client takes more."""
        self._stalled_since = None
        if self._executions is not None:
            self._executions.resume()

    # What the relay calls.

    def shut_down(self) -> None:
        """End the request now: with an error if nothing was sent, else by cutting the answer."""
        self._fail(ShuttingDownError("the router is shutting down"))

    def cut_if_stalled(self, since: float) -> None:
        """End the request if the client has taken nothing of its answer `since` then (time of the loop)."""
        if self._stalled_since is not None and self._stalled_since < since:
            self._conclude(End(EndReason.TIMEOUT))

    # From the body to an endpoint.

    def prepare(self) -> None:
        """Parse and hash about a megabyte, and let others have their turn; then have the request sent."""
        if self._end is not None:
            return
        try:
            done = next(self._steps, _PREPARED) is _PREPARED
        except EppError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  the client is told, whatever it was
            self.on_fault(error)
        else:
            (self._turns.sending if done else self._turns.preparing).add(self)

    def send(self) -> None:
        """Send the request where the director says."""
        if self._end is not None:
            return
        around = self._around
        try:
            request = upstream_request(
                self._scope,
                self._request_id,
                self._body,
                trusted=self._trusted,
                credentials=around.credentials,
            )
            if self._exchange.rewritten is not None:
                request = with_rewritten_body(request, self._exchange, self._hold)
            self._forget_body()
            self._executions = FastExecutions(around.director, around.pool, self._exchange, around.now, self)
            self._executions.start(request)
        except EppError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  the client is told, whatever it was
            self.on_fault(error)

    def _forget_body(self) -> None:
        """Others keep it as long as they need it: not to the end of a long answer."""
        self._body, self._steps = b"", _NO_STEPS

    # What the executions call.

    def on_answer(self, target: Target, head: ResponseHead) -> None:
        """The answer begins."""
        try:
            self._begin_answer(target, head)
        except Exception as error:  # noqa: BLE001  the client is told, whatever it was
            self.on_fault(error)

    def _begin_answer(self, target: Target, head: ResponseHead) -> None:
        self._hold.release()
        self._observed = observed = ObservedAnswer(self._around, self._exchange, head)
        headers = observed.headers(target, head, self._scope, self._request_id)
        connection = self._connection
        names = names_of(self._exchange, head)
        new_writer = AnswerWriter if names is None else partial(RenamingWriter, names)
        self._writer = new_writer(
            connection.transport,
            head.status,
            connection.default_headers + headers,
            close=not self.keep_alive,
        )
        self._answer_head = head
        self.response_started = True
        if connection.write_paused:
            self.pause_writing()

    def on_data(self, data: bytes) -> None:
        """Bytes of the answer's body."""
        writer, observed = self._writer, self._observed
        if self._end is not None or writer is None or observed is None:
            return
        try:
            writer.write(data)
            observed.feed(data)
        except Exception as error:  # noqa: BLE001  the client is shown that its answer is not complete
            self.on_fault(error)

    def on_end(self) -> None:
        """The answer is complete."""
        if self._end is not None:
            return
        self._answer().end()
        try:
            self._finish(COMPLETE)
        finally:
            self._complete()

    def on_cut(self, failure: UpstreamFailure) -> None:
        """The answer broke off: the client gets what came, and is shown that it is not all."""
        if self._end is not None:
            return
        head = self._answer_head
        if self._around.settings.stream_error_event and head is not None and is_event_stream(head):
            self._answer().write_own(CUT_EVENT)
        self._conclude(End(reason_of_cut(failure)))

    def on_none(self, error: EppError) -> None:
        """No endpoint has an answer."""
        self._fail(error)

    def _answer(self) -> AnswerWriter | RenamingWriter:
        if self._writer is None:
            raise AssertionError(_NO_HEAD)
        return self._writer

    # How it ends.

    def _on_total_timeout(self) -> None:
        self._fail(FirstByteTimeoutError("no answer within the total time"))

    def on_fault(self, error: Exception) -> None:
        """An exception that nobody expected."""
        logger.error("request %s failed", self._request_id.decode("ascii"), exc_info=error)
        self._fail(InternalError("internal error"))

    def _fail(self, error: EppError) -> None:
        self._conclude(ended_by(error))

    def _conclude(self, end: End) -> None:
        """End the request early, and tell the client what it does not know yet."""
        if self._end is not None:
            return
        started = self.response_started
        self._finish(end)
        if started:
            self.disconnected = True
            self._connection.transport.cut()
        elif end.error is not None:
            self._send_error(end.error)

    def _send_error(self, error: EppError) -> None:
        connection = self._connection
        # A client that does not read is given up when the error cannot be delivered either.
        close = connection.write_paused or not (self._body_read and self.keep_alive)
        answer = render_error(error, self._request_id, close=close)
        connection.transport.write(answer.as_http11(connection.default_headers))
        self.keep_alive = not close
        self._complete()

    def _complete(self) -> None:
        self.response_started = self.response_complete = True
        if not self.keep_alive:
            self._connection.transport.close()
        self._connection.on_response_complete()

    def _finish(self, end: End) -> None:
        """Give everything back and have the director told, once."""
        if self._end is not None:
            return
        # After an answer has begun the client is shown no error.
        self._end = End(end.reason) if end.error is not None and self.response_started else end
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None  # it knows this object
        if self._executions is not None:
            self._executions.release()
            self._executions = None
        self._hold.release()
        if not self._body_read:
            self._received.take()
        self._forget_body()
        self._ended_at = self._around.now()
        self._turns.ending.add(self)

    def tell_end(self) -> None:
        """Tell the director how it ended: after the answer was written, which nothing should hold up."""
        end, observed = self._end, self._observed
        if end is None:
            raise AssertionError("it has not ended")
        self._relay.end(self)
        self._around.director.on_end(
            self._exchange,
            end.reason,
            self._ended_at,
            usage=observed.usage() if observed is not None else None,
            response_bytes=observed.size if observed is not None else 0,
            error=end.error,
        )


def begin_request(
    relay: Relay, turns: FastTurns, connection: ClientConnection, scope: Scope, *, keep_alive: bool
) -> FastRequest:
    """A request whose head has come; it may have been answered already."""
    around = relay.around
    arrival = arrival_of(scope, around.new_request_id, around.gate, around.proxies)
    request = FastRequest(
        relay,
        around,
        turns,
        connection,
        scope,
        arrival.request_id,
        arrival.trusted,
        around.director.open(arrival.head, around.now()),
        BodyHold(around.budget),
        Collected(),
        connection.loop.time(),
        keep_alive,
    )
    request.begin(arrival.head, arrival.refusal)
    return request
