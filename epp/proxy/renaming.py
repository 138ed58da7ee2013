"""A request that goes to another model than it names, and its answer with the name that it did name."""

from typing import Final

import msgspec

from epp.director import Exchange
from epp.director.rewriting import names_for
from epp.http import Headers, ResponseHead, UpstreamRequest
from epp.http.budget import BodyHold
from epp.proxy.heads import value_of
from epp.proxy.writer import AnswerWriter, Output
from epp.response import AnswerNames

__all__ = ["RenamingWriter", "fitted", "names_of", "with_rewritten_body"]

_LENGTH: Final = b"content-length"


def with_rewritten_body(request: UpstreamRequest, exchange: Exchange, hold: BodyHold) -> UpstreamRequest:
    """`request` as the endpoint gets it: with the body in which the target stands, if there is one.

    Raises:
        OverloadedError: there is no room for what a compressed body inflates to.
    """
    rewritten, exchange.rewritten = exchange.rewritten, None
    if rewritten is None:
        return request
    hold.take(max(0, len(rewritten.body) - exchange.body_bytes))
    headers = [header for header in request.headers if header[0].lower() not in rewritten.withheld]
    return msgspec.structs.replace(request, headers=headers, body=rewritten.body)


def names_of(exchange: Exchange, head: ResponseHead) -> AnswerNames | None:
    """Who puts the client's name for the model into an answer with this head; None: it passes as it is."""
    if exchange.rewrite is None:
        return None
    kind, coding = value_of(head, b"content-type"), value_of(head, b"content-encoding")
    return names_for(exchange, head.status, kind, coding)


def fitted(headers: Headers, names: AnswerNames, first: bytes, renamed: bytes) -> Headers:
    """The headers of an answer that begins with `first`, which `names` has just made `renamed` of.

    Where more may change, the length is not known, and not announced.
    """
    announced = next((int(value) for name, value in headers if name == _LENGTH), None)
    if announced is None:
        return headers
    if not names.settled and len(first) < announced:
        return [header for header in headers if header[0] != _LENGTH]
    length = (_LENGTH, b"%d" % (announced + len(renamed) - len(first)))
    return [length if header[0] == _LENGTH else header for header in headers]


class RenamingWriter:
    """An `AnswerWriter` whose body passes through `names`."""

    __slots__ = ("_close", "_headers", "_names", "_output", "_status", "_writer")

    def __init__(
        self,
        names: AnswerNames,
        output: Output,
        status: int,
        headers: Headers,
        *,
        close: bool,
    ) -> None:
        self._names = names
        self._output = output
        self._status = status
        self._headers = headers
        self._close = close
        self._writer: AnswerWriter | None = None

    def write(self, data: bytes) -> None:
        """Bytes of the body as the endpoint sent them, not empty."""
        renamed = self._names.feed(data)
        writer = self._writer or self._begin(fitted(self._headers, self._names, data, renamed))
        if renamed:
            writer.write(renamed)

    def write_own(self, data: bytes) -> None:
        """Bytes that are ours."""
        (self._writer or self._begin(self._headers)).write(data)

    def end(self) -> None:
        """The body is complete."""
        (self._writer or self._begin(self._headers)).end()

    def _begin(self, headers: Headers) -> AnswerWriter:
        self._writer = writer = AnswerWriter(self._output, self._status, headers, close=self._close)
        return writer
