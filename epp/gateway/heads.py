"""Heads on their way through a gateway: what the director is told of them, and what changes.

The rules are those of the HTTP front door (`epp.http.headers`), as changes to a head that the gateway owns:
what it sets itself (forwarding, hop-by-hop, framing) stays its own.

    request                                          answer
    routing headers from outside: removed            x-epp-*: removed, then x-epp-endpoint is set
    x-gateway-destination-endpoint: the pick         x-request-id: the request's
    x-request-id: one, valid                         what plugins add
    authorization, x-api-key: see `Credentials`
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from epp.director import RequestHead
from epp.gateway.events import DESTINATION, Mutation, RequestHeaders
from epp.http.headers import Credentials, is_routing_header
from epp.http.types import Headers

__all__ = [
    "Line", "line_of", "request_head", "request_mutation", "response_mutation", "status_of", "value_of",
]  # fmt: skip

_DEFAULT_PATH: Final = b"/v1/completions"  # the Go picker's, for a head without one
_HOPS: Final = "x-forwarded-for"
_STATUSES: Final = range(100, 600)  # RFC 9110, section 15: others are invalid


class Line(NamedTuple):
    """Method and path of a request, the path decoded and without its query."""

    method: str
    path: str


def line_of(event: RequestHeaders) -> Line:
    """What the pseudo headers say."""
    method, target = b"POST", _DEFAULT_PATH
    for name, value in event.headers:
        if name == b":method":
            method = value
        elif name == b":path":
            target = value
    path = target.partition(b"?")[0].decode("latin-1")
    return Line(method.decode("latin-1"), unquote(path) if "%" in path else path)


def request_head(event: RequestHeaders, line: Line, request_id: bytes, key_name: str | None) -> RequestHead:
    """What the director needs; repeated headers are joined as RFC 9110 section 5.3 allows.

    The caller is whom the gateway itself has seen: the last of those for whom it was forwarded.
    """
    headers: dict[str, str] = {}
    for name, value in event.headers:
        if name.startswith(b":"):
            continue
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    client = headers.get(_HOPS, "").rpartition(",")[2].strip() or None
    return RequestHead(request_id.decode("ascii"), line.method, line.path, headers, client, key_name)


def request_mutation(
    event: RequestHeaders,
    *,
    request_id: bytes,
    destination: str,
    credentials: Credentials | None = None,
    withheld: frozenset[bytes] = frozenset(),
) -> Mutation:
    """What changes of a request's head on its way to the pick; headers that are `withheld` go."""
    replaced: Headers = [
        (DESTINATION.encode("ascii"), destination.encode("ascii")),
        (b"x-request-id", request_id),
    ]
    if credentials is not None:
        withheld |= credentials.withheld
        if credentials.authorization is not None:
            replaced.append((b"authorization", credentials.authorization))
    return Mutation(replaced, _removed(event.headers, replaced, withheld))


def _removed(headers: Headers, replaced: Headers, withheld: frozenset[bytes]) -> list[str]:
    found = {lower for name, _ in headers if (lower := name.lower()) in withheld or is_routing_header(lower)}
    return sorted(name.decode("latin-1") for name in found - {name for name, _ in replaced}) if found else []


def response_mutation(
    headers: Headers,
    *,
    request_id: bytes,
    endpoint: str | None,
    decision: str | None = None,
    added: tuple[tuple[str, str], ...] = (),
) -> Mutation:
    """What changes of an answer's head on its way to the client; what is None is not sent."""
    own: Mapping[bytes, str | None] = {b"x-epp-endpoint": endpoint, b"x-epp-decision": decision}
    replaced: Headers = [(b"x-request-id", request_id)]
    replaced += [(name, value.encode("ascii")) for name, value in own.items() if value is not None]
    replaced += [(name.encode("ascii"), value.encode("ascii")) for name, value in added]
    found = {lower for name, _ in headers if (lower := name.lower()).startswith(b"x-epp-")}
    removed = sorted(name.decode("latin-1") for name in found - {name for name, _ in replaced})
    return Mutation(replaced, removed)


def status_of(headers: Headers) -> int | None:
    """The status of an answer's head; None where it has none that is one."""
    value = value_of(headers, b":status") or value_of(headers, b"status") or b""
    status = int(value) if len(value) == 3 and value.isdigit() else 0
    return status if status in _STATUSES else None


def value_of(headers: Headers, wanted: bytes) -> bytes | None:
    """The first value of a header, its name in lower case."""
    return next((value for name, value in headers if name == wanted), None)
