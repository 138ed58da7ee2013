"""An answer on its way to the client, as the director is told of it: the same in both lanes."""

from epp.director import Exchange, Target
from epp.http import Headers, ResponseHead
from epp.proxy.asgi import Scope
from epp.proxy.heads import answer_headers, naming_of, observer_of
from epp.proxy.surroundings import Surroundings
from epp.response import Usage

__all__ = ["ObservedAnswer"]


class ObservedAnswer:
    """Made when the head will be relayed, and fed with the body as it is.

    Attributes:
        size: bytes of the body so far.
    """

    __slots__ = ("_around", "_exchange", "_naming", "_observer", "size")

    def __init__(self, around: Surroundings, exchange: Exchange, head: ResponseHead) -> None:
        self._around = around
        self._exchange = exchange
        self.size = 0
        around.director.on_response_head(exchange, head.status, around.now())
        self._observer = observer_of(head)
        self._naming = naming_of(head, exchange.request)

    def headers(self, target: Target, head: ResponseHead, scope: Scope, request_id: bytes) -> Headers:
        """The headers of the answer, as `answer_headers` has them."""
        around, exchange = self._around, self._exchange
        wants_receipt = exchange.head.headers.get("x-epp-explain") == "1"
        return answer_headers(
            head,
            request_id=request_id,
            endpoint=target.address if around.settings.expose_endpoint else None,
            decision=around.explain(exchange, scope) if wants_receipt else None,
            added=around.director.response_headers(exchange),
        )

    def feed(self, data: bytes) -> None:
        """Bytes of the body, not empty."""
        director, exchange = self._around.director, self._exchange
        if not self.size:
            director.on_first_byte(exchange, self._around.now())
        self.size += len(data)
        if self._observer is not None:
            self._observer.feed(data)
        if self._naming is not None:
            response_id = self._naming.feed(data)
            if response_id is not None:
                director.on_stored_response(exchange, response_id, self._around.now())

    def usage(self) -> Usage | None:
        """What the endpoint reported, once the body has ended or broken off."""
        return self._observer.finish() if self._observer is not None else None
