"""One request of a gateway, from its head to what is seen of its answer. No I/O: the engine drives it."""

import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Final

from epp.director import Director, EndReason, Exchange
from epp.director.pick import pick_list
from epp.director.rewriting import names_for
from epp.director.subset import subset_of
from epp.errors import (
    EppError,
    ForbiddenError,
    InternalError,
    OverloadedError,
    RequestTimeoutError,
    ShuttingDownError,
    UpstreamProtocolError,
)
from epp.gateway.codec import Codec
from epp.gateway.conversation import Action, Close, Conversation, Data, Decide, End, Fault, Head, Send
from epp.gateway.events import BodyMode, Event, RequestBody, RequestHeaders, ResponseDepth, ResponseHeaders
from epp.gateway.forms import FORM_PATHS, model_of_form
from epp.gateway.heads import (
    Line,
    head_of,
    line_of,
    raw,
    request_id_of,
    request_mutation,
    response_mutation,
    status_of,
)
from epp.http.budget import BodyBudget, BodyHold
from epp.http.errors import error_response
from epp.http.headers import Credentials
from epp.http.types import Headers
from epp.request import Api, api_of
from epp.response import ResponseObserver
from epp.security import KeyGate

__all__ = ["Limits", "PickedRequest", "ProtocolFault", "Surroundings"]

logger = logging.getLogger("epp.gateway")

_EXPLAIN: Final = "x-epp-explain"
_SERVED_HEADER: Final = "x-conformance-test-served-endpoint"
_KEPT_MODES: Final = frozenset({BodyMode.BUFFERED, BodyMode.BUFFERED_PARTIAL})


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request, and what is told and heeded; `max_requests` is of all requests, 0: none."""

    max_body_bytes: int
    body_timeout_s: float
    max_requests: int = 0
    expose_endpoint: bool = True
    subset_hint: bool = True


@dataclass(slots=True)
class Surroundings:
    """What all requests of a gateway share. `now` is in monotonic seconds.

    Attributes:
        closed: why a path is not served, "" when it is.
        explain: the value of `x-epp-decision`, None for a client that may not see it.
        verifies_served: whether answers tell who served, as the conformance suite asks.
        gate: asks clients for keys; None asks for none.
        credentials: what endpoints get instead of the clients' credentials.
        shows_answers: the gateway has shown an answer's head, so that a stream that ends before one means
            that the request has ended.
        active: requests whose stream is open.
    """

    director: Director
    codec: Codec
    limits: Limits
    depth: ResponseDepth
    now: Callable[[], float]
    new_request_id: Callable[[], bytes]
    budget: BodyBudget
    closed: Callable[[str], str]
    explain: Callable[[Exchange, Headers], str | None]
    verifies_served: Callable[[], bool] = lambda: False
    gate: KeyGate | None = None
    credentials: Credentials | None = None
    shows_answers: bool = False
    active: int = 0


class ProtocolFault(Exception):  # noqa: N818  the peer's fault, not an error of ours
    """The gateway broke the protocol."""


class PickedRequest:
    """Drives the director for one stream.

    `receive` yields messages for the gateway, and None where others should have a turn. `close` must be
    called once, whatever happened.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._talk = Conversation(
            around.codec,
            depth=around.depth,
            max_body_bytes=around.limits.max_body_bytes,
            reads_body=lambda _event: _reads_body(self._line),
        )
        self._hold = BodyHold(around.budget)
        self._size = 0
        self._event: RequestHeaders | None = None
        self._line = Line("", "")
        self._request_id = b""
        self._exchange: Exchange | None = None
        self._answer: tuple[str | None, str | None] | None = None  # its type and coding, if it may tell usage
        self._observer: ResponseObserver | None = None
        self._response_bytes = 0
        self.over = False
        around.active += 1

    @property
    def waits_for_request(self) -> bool:
        """No decision has been made: the client still sends."""
        return self._exchange is None or (self._exchange.target is None and not self.over)

    def receive(self, event: Event) -> Generator[bytes | None, None, None]:
        """What one message of the gateway leads to.

        Raises:
            ProtocolFault: the stream must end with an error.
        """
        try:
            if isinstance(event, RequestHeaders) and self._event is None:
                self._open(event)
            if isinstance(event, RequestBody) and self.waits_for_request:
                self._hold.take(len(event.data))
                self._size += len(event.data)
            yield from self._act(self._talk.receive(event))
        except EppError as error:
            yield from self._refuse(error)
        except ProtocolFault:
            raise
        except Exception:
            logger.exception("request %s failed", self._request_id.decode("ascii"))
            yield from self._refuse(InternalError("internal error"))

    def time_out(self) -> Generator[bytes | None, None, None]:
        """The request did not arrive in time."""
        return self._refuse(RequestTimeoutError("the body of the request did not arrive in time"))

    def close(self, *, shutdown: bool = False) -> None:
        """The stream has ended. `shutdown`: we ended it."""
        self._around.active -= 1
        self._hold.release()
        exchange = self._exchange
        if exchange is None or exchange.ended:
            return
        if shutdown:
            self._end(EndReason.SHUTDOWN, error=ShuttingDownError("the router is shutting down"))
        elif exchange.target is None:
            self._end(EndReason.CLIENT_DISCONNECTED)
        elif exchange.status is not None:
            # It was to be seen to its end.
            self._end(EndReason.CLIENT_DISCONNECTED if not self.over else EndReason.COMPLETE)
        elif self.over or self._event is None:
            self._around.director.on_unobserved(exchange, self._around.now())
        else:
            self._end_unseen(exchange, self._event.request_mode)

    def _end_unseen(self, exchange: Exchange, mode: BodyMode) -> None:
        """The gateway has ended the stream before it showed the head of an answer."""
        if self._around.shows_answers:
            self._end(EndReason.CLIENT_DISCONNECTED)
        elif mode in _KEPT_MODES:  # its streams last as long as requests
            self._end(EndReason.UNOBSERVED)
        else:
            self._around.director.on_unobserved(exchange, self._around.now())

    def _end(self, reason: EndReason, error: EppError | None = None) -> None:
        if self._exchange is not None:
            self._around.director.on_end(
                self._exchange,
                reason,
                self._around.now(),
                usage=self._observer.finish() if self._observer is not None else None,
                response_bytes=self._response_bytes,
                error=error,
            )

    # The request.

    def _open(self, event: RequestHeaders) -> None:
        """Begin the request's life.

        Raises:
            UnauthorizedError, ForbiddenError, OverloadedError.
        """
        around = self._around
        self._event = event
        headers = event.headers
        self._line = line = line_of(event.method, event.target)
        self._request_id = request_id_of(headers) or around.new_request_id()
        admission = around.gate.admit(line.method, raw(headers)) if around.gate else None
        key_name = admission.key_name if admission else None
        head = head_of(line, headers, self._request_id, key_name)
        self._exchange = around.director.open(head, around.now())
        if event.subset is not None and around.limits.subset_hint:
            self._exchange.subset = subset_of(event.subset)
        if admission is not None and admission.error is not None:
            raise admission.error
        closed = around.closed(line.path)
        if closed:
            raise ForbiddenError(closed)
        limit = around.limits.max_requests
        if limit and around.active > limit:
            raise OverloadedError(f"{limit} requests are in flight, more are not taken; try again")

    def _act(self, actions: Iterable[Action]) -> Generator[bytes | None, None, None]:
        for action in actions:
            match action:
                case Send():
                    yield action.message
                case Decide():
                    yield from self._decide(action.body)
                case Head():
                    yield from self._act(self._on_head(action.event))
                case Data():
                    self._on_data(action.data)
                case End():
                    self._end(EndReason.COMPLETE)
                case Close():
                    self._on_close()
                case Fault():
                    self.over = True
                    raise ProtocolFault(action.detail)

    def _decide(self, body: bytes | None) -> Generator[bytes | None, None, None]:
        around, exchange, event = self._around, self._exchange, self._event
        if exchange is None or event is None:
            raise AssertionError("a decision follows a head")
        model = model_of_form(self._line.path, event.headers.get("content-type"), body)
        unread = body is None or model is not None
        for _ in around.director.prepare(exchange, None if unread else body, around.now(), model=model):
            yield None
        exchange.body_bytes = self._size
        destination = ",".join(pick_list(around.director, exchange, around.now()))
        rewritten, exchange.rewritten = exchange.rewritten, None
        mutation = request_mutation(
            event.headers,
            request_id=self._request_id,
            credentials=around.credentials,
            withheld=frozenset() if rewritten is None else rewritten.withheld,
        )
        self._hold.release()
        replaced = None if rewritten is None else rewritten.body
        renames = exchange.rewrite is not None and exchange.rewrite.renames
        yield from self._act(self._talk.route(destination, mutation, replaced, renames=renames))

    def _refuse(self, error: EppError) -> Generator[bytes | None, None, None]:
        self.over = True
        self._hold.release()
        self._end(_reason_of(error), error=error)
        status, headers, body = error_response(error)
        headers = [header for header in headers if header[0] != b"content-length"]  # the gateway's own
        if self._request_id:
            headers.append((b"x-request-id", self._request_id))
        for action in self._talk.refuse(status, headers, body):
            if isinstance(action, Send):
                yield action.message

    # The answer.

    def _on_head(self, event: ResponseHeaders) -> Iterable[Action]:
        around, exchange = self._around, self._exchange
        if exchange is None:
            raise AssertionError("an answer follows a request")
        around.shows_answers = True
        now, status = around.now(), status_of(event.headers)
        if event.served is not None:
            around.director.on_served(exchange, event.served)
        if status is None:
            error = UpstreamProtocolError("the answer has no status")
            self._end(EndReason.UPSTREAM_ABORTED, error=error)
        else:
            around.director.on_response_head(exchange, status, now)
            around.director.on_first_byte(exchange, now)
        names = None
        if status is not None and 200 <= status < 300:
            kind, coding = (event.headers.get(name) for name in ("content-type", "content-encoding"))
            self._answer = (kind, coding)
            names = names_for(exchange, status, kind, coding)
        picked = exchange.target.address if exchange.target else None
        return self._talk.pass_head(
            event,
            response_mutation(
                event.headers,
                request_id=self._request_id,
                endpoint=(event.served or picked) if around.limits.expose_endpoint else None,
                decision=self._receipt(exchange),
                added=self._added(exchange, event.served),
            ),
            names,
        )

    def _receipt(self, exchange: Exchange) -> str | None:
        headers = exchange.head.headers
        return self._around.explain(exchange, raw(headers)) if _EXPLAIN in headers else None

    def _added(self, exchange: Exchange, served: str | None) -> tuple[tuple[str, str], ...]:
        added = self._around.director.response_headers(exchange)
        if served is not None and self._around.verifies_served():
            added = (*added, (_SERVED_HEADER, served))
        return added

    def _on_data(self, data: bytes) -> None:
        """A piece of the answer, which not every gateway shows."""
        self._response_bytes += len(data)
        if self._observer is None and self._answer is not None:
            self._observer = ResponseObserver(*self._answer)
        if self._observer is not None:
            self._observer.feed(data)

    def _on_close(self) -> None:
        """Nothing more is wanted: what is not known to have ended is estimated."""
        self.over = True
        exchange = self._exchange
        if exchange is None or exchange.ended or exchange.target is None:
            return
        if exchange.status is not None and not self._streams():
            self._end(EndReason.COMPLETE)  # an endpoint that does not stream answers when it has finished
        else:
            self._around.director.on_unobserved(exchange, self._around.now())

    def _streams(self) -> bool:
        """The answer is an event stream, or may be one: its head says nothing of its end."""
        exchange = self._exchange
        if exchange is None or exchange.status is None or not 200 <= exchange.status < 300:
            return False
        request = exchange.request
        return request is None or request.stream or request.api is Api.OTHER


def _reads_body(line: Line) -> bool:
    """Whether the body tells where the request should go: a prompt, or a form that names a model."""
    if line.method != "POST":
        return False
    return api_of(line.path) is not Api.OTHER or line.path.startswith(FORM_PATHS)


def _reason_of(error: EppError) -> EndReason:
    if isinstance(error, RequestTimeoutError):
        return EndReason.TIMEOUT
    return EndReason.SHUTDOWN if isinstance(error, ShuttingDownError) else EndReason.REJECTED
