"""Between events and the bytes of Envoy's messages; no state but the message classes."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from epp.gateway import encode
from epp.gateway.events import (
    BodyMode,
    Event,
    Malformed,
    Mutation,
    RequestBody,
    RequestHeaders,
    RequestTrailers,
    ResponseBody,
    ResponseHeaders,
    ResponseTrailers,
)
from epp.gateway.messages import messages
from epp.http.types import Headers

__all__ = ["MAX_PIECE_BYTES", "Codec"]

_NAMESPACE: Final = "envoy.lb"
_SERVED: Final = "x-gateway-destination-endpoint-served"
_PSEUDO: Final = (":method", ":path", ":authority", ":scheme")
_SUBSET_NAMESPACE: Final = "envoy.lb.subset_hint"
_SUBSET: Final = "x-gateway-destination-endpoint-subset"

# The longest piece of a body that goes back in one message: what the inference extension's own picker sends.
MAX_PIECE_BYTES: Final = 62_000


class Codec:
    """Reads a gateway's messages and writes the picker's."""

    def __init__(self) -> None:
        m = messages()
        self.no_change: Final[dict[type[Event], bytes]] = {
            kind: m.ProcessingResponse(**{field: getattr(m, answer)()}).SerializeToString()
            for kind, field, answer in (
                (RequestHeaders, "request_headers", "HeadersResponse"),
                (RequestBody, "request_body", "BodyResponse"),
                (RequestTrailers, "request_trailers", "TrailersResponse"),
                (ResponseHeaders, "response_headers", "HeadersResponse"),
                (ResponseBody, "response_body", "BodyResponse"),
                (ResponseTrailers, "response_trailers", "TrailersResponse"),
            )
        }
        self._parse = m.ProcessingRequest.FromString
        self._readers: Final[dict[str, Callable[[Any], Event]]] = {
            "request_headers": self._request_headers,
            "request_body": lambda r: RequestBody(r.request_body.body, r.request_body.end_of_stream),
            "request_trailers": lambda _: RequestTrailers(),
            "response_headers": self._response_headers,
            "response_body": lambda r: ResponseBody(r.response_body.body, r.response_body.end_of_stream),
            "response_trailers": lambda _: ResponseTrailers(),
        }

    # What the gateway says.

    def decode(self, data: bytes) -> Event:
        """The event of one message; never raises."""
        try:
            request = self._parse(data)
        except DecodeError:
            return Malformed("not a ProcessingRequest")
        kind = request.WhichOneof("one")
        return Malformed("an empty ProcessingRequest") if kind is None else self._readers[kind](request)

    def _request_headers(self, request: Any) -> RequestHeaders:
        head = request.request_headers
        modes = request.protocol_config
        # Gateways that do not say their modes are those that know but one.
        told = request.HasField("protocol_config")
        headers = _headers(head.headers)
        method, target, *_ = [headers.pop(name, None) for name in _PSEUDO]
        return RequestHeaders(
            method,
            target,
            headers,
            head.end_of_stream,
            BodyMode(modes.request_body_mode) if told else BodyMode.FULL_DUPLEX_STREAMED,
            BodyMode(modes.response_body_mode) if told else BodyMode.FULL_DUPLEX_STREAMED,
            _subset(_metadata(request, _SUBSET_NAMESPACE, _SUBSET)),
            request.observability_mode,
        )

    def _response_headers(self, request: Any) -> ResponseHeaders:
        head = request.response_headers
        served = _metadata(request, _NAMESPACE, _SERVED)
        return ResponseHeaders(
            _headers(head.headers), head.end_of_stream, served.string_value or None if served else None
        )

    # What the picker says; the numbers are fields of ProcessingResponse.

    def request_headers(self, mutation: Mutation, destination: str) -> bytes:
        """The answer to a head that carries the pick."""
        return encode.picked(1, mutation, destination)

    def request_body(self, mutation: Mutation, destination: str, body: bytes | None) -> bytes:
        """The answer to a whole body that carries the pick; `body` takes its place."""
        return encode.picked(3, mutation, destination, body)

    def response_headers(self, mutation: Mutation) -> bytes:
        """The answer to an answer's head."""
        return encode.mutated(2, mutation)

    def response_body(self, mutation: Mutation, body: bytes) -> bytes:
        """The answer to an answer's body, or to a piece of it, in whose place `body` goes on."""
        return encode.mutated(4, mutation, body)

    def request_pieces(self, data: bytes, *, end_of_stream: bool) -> Iterator[bytes]:
        """A part of the request's body on its way back, cut to what one message may hold."""
        for piece, last in _pieces(data):
            yield encode.piece(3, piece, end_of_stream=last and end_of_stream)

    def response_pieces(self, data: bytes, *, end_of_stream: bool) -> Iterator[bytes]:
        """A part of the answer's body on its way back."""
        for piece, last in _pieces(data):
            yield encode.piece(4, piece, end_of_stream=last and end_of_stream)

    def immediate(self, status: int, headers: Headers, body: bytes) -> bytes:
        """An answer to the client instead of an endpoint's."""
        return encode.immediate(status, headers, body)


def _headers(given: Any) -> dict[str, str]:
    """Envoy fills `raw_value`, other gateways may fill `value`; repeats are joined (RFC 9110 section 5.3)."""
    headers: dict[str, str] = {}
    for header in given.headers:
        name, value = header.key.lower(), header.raw_value.decode("latin-1") or header.value
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _metadata(request: Any, namespace: str, key: str) -> Any:
    """A value of the gateway's metadata, None where there is none."""
    for group in request.metadata_context.filter_metadata:
        if group.key == namespace:
            for entry in group.value.fields:
                if entry.key == key:
                    return entry.value
    return None


def _subset(value: Any) -> tuple[str, ...] | None:
    """A list of addresses, or one text with commas; None: no hint. A hint that names nobody allows nobody."""
    if value is None:
        return None
    if value.WhichOneof("one") == "list_value":
        parts = [item.string_value for item in value.list_value.values]
    else:
        parts = value.string_value.split(",")
    return tuple(part.strip() for part in parts if part.strip())


def _pieces(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Pieces of `data`, and whether each is the last; nothing is one empty piece."""
    last = max(0, len(data) - 1) // MAX_PIECE_BYTES
    for number in range(last + 1):
        start = number * MAX_PIECE_BYTES
        yield data[start : start + MAX_PIECE_BYTES], number == last
