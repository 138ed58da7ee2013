"""The turns of one external-processing stream: which message is answered when, and with what.

Sans-IO: events in, actions out. Whoever drives it decides (`Decide`) and says the outcome with `route` or
`refuse`; it looks at the answer (`Head`, `Data`, `End`) and says with `pass_head` what of it changes.

    mode of the request's body        the pick goes out in the answer to
    any, a request without a body     its head
    FULL_DUPLEX_STREAMED, GRPC        its head, which is answered when the body is complete; then the body
                                      goes back in pieces
    BUFFERED, BUFFERED_PARTIAL        its body; the head is answered at once, without a change
    NONE, STREAMED                    its head: the body does not come, or comes too late

A body that nobody has to read (`reads_body` says so) is not waited for: the pick goes out with the head, and
a body in full duplex goes back as it comes.

A stream may end before its request does: the gateway then goes on by itself. Not where answers come in full
duplex: the gateway has given away what it sent, and loses it if the stream ends (seen with Envoy 1.40). Such
an answer goes back to its last piece, whatever depth is wanted, and so does one in which a model is renamed.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from epp.errors import BadRequestError, PayloadTooLargeError
from epp.gateway.codec import Codec
from epp.gateway.events import (
    BodyMode,
    Event,
    Malformed,
    Mutation,
    RequestBody,
    RequestHeaders,
    RequestTrailers,
    ResponseBody,
    ResponseDepth,
    ResponseHeaders,
    ResponseTrailers,
)
from epp.http.collected import Collected
from epp.http.types import Headers
from epp.response import AnswerNames

__all__ = ["Action", "Close", "Conversation", "Data", "Decide", "End", "Fault", "Head", "Send"]


@dataclass(frozen=True, slots=True)
class Send:
    """A message to the gateway."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Decide:
    """The request is here as far as it is needed; `body` is None where it is not to be read."""

    body: bytes | None


@dataclass(frozen=True, slots=True)
class Head:
    """The head of the answer."""

    event: ResponseHeaders


@dataclass(frozen=True, slots=True)
class Data:
    """A piece of the answer's body."""

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The answer is complete."""


@dataclass(frozen=True, slots=True)
class Close:
    """The stream may end after the messages that follow: nothing that comes is of use.

    It stands before them, since a gateway that has its last answer ends the stream at once.
    """


@dataclass(frozen=True, slots=True)
class Fault:
    """The gateway broke the protocol; the stream ends with an error."""

    detail: str


Action = Send | Decide | Head | Data | End | Close | Fault


class _Phase(enum.Enum):
    START = enum.auto()
    COLLECTING = enum.auto()
    DECIDING = enum.auto()
    ROUTED = enum.auto()  # the pick is told; the rest of the request and the answer come
    ANSWERING = enum.auto()  # the answer's head was seen, its body is wanted
    OVER = enum.auto()


_DUPLEX: Final = frozenset({BodyMode.FULL_DUPLEX_STREAMED, BodyMode.GRPC})
_BUFFERED: Final = frozenset({BodyMode.BUFFERED, BodyMode.BUFFERED_PARTIAL})
_RESPONSE_SIDE: Final = (ResponseHeaders, ResponseBody, ResponseTrailers)


class Conversation:
    """One stream. After `Close` or `Fault` no method may be called."""

    def __init__(
        self,
        codec: Codec,
        *,
        depth: ResponseDepth,
        max_body_bytes: int,
        reads_body: Callable[[RequestHeaders], bool],
    ) -> None:
        self._codec = codec
        self._depth = depth
        self._max_bytes = max_body_bytes
        self._reads_body = reads_body
        self._phase = _Phase.START
        self._mode = self._response_mode = BodyMode.NONE
        self._answers_body = False  # the pick goes out in the answer to the body
        self._collected = Collected()
        self._held: bytes | None = None  # the body on its way back
        self._ended_by: Event | None = None  # the message that completed the request
        self._renames = False  # the answer should be seen to its end
        self._names: AnswerNames | None = None

    def receive(self, event: Event) -> list[Action]:
        """The actions that one message asks for.

        Raises:
            PayloadTooLargeError, BadRequestError: the client must be refused.
        """
        if isinstance(event, Malformed):
            return self._over(Fault(event.detail))
        if isinstance(event, RequestHeaders):
            return self._on_head(event)
        if self._phase is _Phase.START:
            return self._unasked(event)
        if isinstance(event, _RESPONSE_SIDE):
            return self._on_response(event)
        return self._on_request(event)

    # The request.

    def _on_head(self, event: RequestHeaders) -> list[Action]:
        if self._phase is not _Phase.START:
            return self._over(Fault("a second request head"))
        if event.observing:
            return self._over(Close())
        self._mode, self._response_mode = event.request_mode, event.response_mode
        if self._response_mode in _DUPLEX:
            self._depth = ResponseDepth.FULL
        if event.end_of_stream:
            self._ended_by = event
            return self._decide(b"")
        if self._mode in (BodyMode.NONE, BodyMode.STREAMED) or not self._reads_body(event):
            return self._decide(None)
        self._phase = _Phase.COLLECTING
        self._answers_body = self._mode in _BUFFERED
        return [self._unchanged(event)] if self._answers_body else []

    def _on_request(self, event: RequestBody | RequestTrailers) -> list[Action]:
        if self._phase is _Phase.COLLECTING:
            return self._collect(event)
        if self._phase is not _Phase.ROUTED:
            return self._over(Fault(f"{type(event).__name__} out of turn"))
        return [*self._after_request(event), *self._pass(event)]

    def _collect(self, event: RequestBody | RequestTrailers) -> list[Action]:
        if isinstance(event, RequestTrailers):
            if self._answers_body:
                raise BadRequestError("a request with trailers and without a body cannot be routed here")
            self._ended_by = event
            return self._decide(self._whole())
        if self._collected.size + len(event.data) > self._max_bytes:
            raise PayloadTooLargeError(f"the request body is larger than {self._max_bytes} bytes")
        self._collected.add(event.data)
        if not (event.end_of_stream or self._answers_body):
            return []
        self._ended_by = event
        partial = self._mode is BodyMode.BUFFERED_PARTIAL and not event.end_of_stream
        body = self._whole()
        return self._decide(None if partial else body)

    def _whole(self) -> bytes:
        self._held = bytes(self._collected.take())
        return self._held

    def _decide(self, body: bytes | None) -> list[Action]:
        self._phase = _Phase.DECIDING
        return [Decide(body)]

    def _pass(self, event: RequestBody | RequestTrailers) -> list[Action]:
        """What comes of the request after the pick goes on as it is."""
        if isinstance(event, RequestBody) and self._mode in _DUPLEX:
            pieces = self._codec.request_pieces(event.data, end_of_stream=event.end_of_stream)
            return [Send(piece) for piece in pieces]
        return [self._unchanged(event)]

    def _after_request(self, event: RequestBody | RequestTrailers) -> list[Action]:
        complete = isinstance(event, RequestTrailers) or event.end_of_stream or self._mode not in _DUPLEX
        return self._end_if_enough() if complete else []

    def _end_if_enough(self) -> list[Action]:
        enough = self._depth is ResponseDepth.NONE and not self._renames
        return self._over(Close()) if enough else []

    # The decision.

    def route(
        self, destination: str, mutation: Mutation, body: bytes | None = None, *, renames: bool = False
    ) -> list[Action]:
        """Tell the pick: endpoints as `host:port`, best first, with commas between.

        `body` goes on in place of the one that came. `renames`: the answer's body is to be changed, if the
        gateway shows it.
        """
        self._phase = _Phase.ROUTED
        self._renames = renames and self._response_mode is not BodyMode.NONE
        if self._answers_body:
            answers = [Send(self._codec.request_body(self._sized(mutation, body), destination, body))]
        else:
            if body is not None:
                self._held = body
            answers = [Send(self._codec.request_headers(mutation, destination)), *self._returned()]
        self._held = None
        complete = self._ended_by is not None or self._mode in (BodyMode.NONE, BodyMode.BUFFERED)
        return [*(self._end_if_enough() if complete else []), *answers]

    @staticmethod
    def _sized(mutation: Mutation, body: bytes | None) -> Mutation:
        """`mutation` of a head whose body becomes `body`, which a gateway that holds it all measures."""
        if body is None:
            return mutation
        length = (b"content-length", b"%d" % len(body))
        return Mutation([*mutation.replaced, length], mutation.removed)

    def _returned(self) -> Iterator[Send]:
        """The body that was held, on its way back."""
        if self._held is None and not isinstance(self._ended_by, RequestTrailers):
            return
        ends_here = isinstance(self._ended_by, RequestBody)
        body = self._held or b""
        if body or ends_here:
            yield from map(Send, self._codec.request_pieces(body, end_of_stream=ends_here))
        if isinstance(self._ended_by, RequestTrailers):
            yield self._unchanged(self._ended_by)

    def refuse(self, status: int, headers: Headers, body: bytes) -> list[Action]:
        """Answer the client here and now."""
        return [*self._over(Close()), Send(self._codec.immediate(status, headers, body))]

    # The answer.

    def _on_response(self, event: ResponseHeaders | ResponseBody | ResponseTrailers) -> list[Action]:
        if isinstance(event, ResponseHeaders):
            if self._phase is not _Phase.ROUTED:
                return self._over(Fault("an answer's head out of turn"))
            return [Head(event)]
        if self._phase is not _Phase.ANSWERING:
            return self._over(Fault(f"{type(event).__name__} out of turn"))
        if isinstance(event, ResponseTrailers):
            return [End(), *self._over(Close()), self._unchanged(event)]
        ending = [End(), *self._over(Close())] if event.end_of_stream else []
        return [Data(event.data), *ending, *self._pass_response(event)]

    def pass_head(
        self, event: ResponseHeaders, mutation: Mutation, names: AnswerNames | None = None
    ) -> list[Action]:
        """Let the answer go on, with its head changed; its body passes through `names`."""
        if self._renames and not event.end_of_stream:
            self._names = names
        if self._names is not None and self._response_mode is not BodyMode.BUFFERED:
            mutation = Mutation(mutation.replaced, [*mutation.removed, "content-length"])
        answer = Send(self._codec.response_headers(mutation))
        if event.end_of_stream:
            return [End(), *self._over(Close()), answer]
        wanted = self._depth is ResponseDepth.FULL or self._names is not None
        if not wanted or self._response_mode is BodyMode.NONE:
            return [*self._over(Close()), answer]
        self._phase = _Phase.ANSWERING
        return [answer]

    def _pass_response(self, event: ResponseBody) -> Iterator[Send]:
        data = event.data if self._names is None else self._names.feed(event.data)
        if self._response_mode in _DUPLEX:
            pieces = self._codec.response_pieces(data, end_of_stream=event.end_of_stream)
            return map(Send, pieces)
        if data == event.data:
            return iter([self._unchanged(event)])
        whole = self._response_mode is BodyMode.BUFFERED
        head = self._sized(Mutation(), data) if whole else Mutation()
        return iter([Send(self._codec.response_body(head, data))])

    # All of it.

    def _unasked(self, event: Event) -> list[Action]:
        """A stream that begins in the middle: nothing is known of its request, so nothing changes."""
        return [*self._over(Close()), self._unchanged(event)]

    def _unchanged(self, event: Event) -> Send:
        return Send(self._codec.no_change[type(event)])

    def _over(self, action: Action) -> list[Action]:
        self._phase = _Phase.OVER
        return [action]
