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
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from epp.director import RequestHead
from epp.gateway.events import DESTINATION, Mutation
from epp.http.headers import Credentials, find_request_id, is_routing_header
from epp.http.types import Headers

__all__ = [
    "Line", "head_of", "line_of", "raw", "removed_names", "request_id_of", "request_mutation",
    "response_mutation", "status_of",
]  # fmt: skip

_DEFAULT_PATH: Final = "/v1/completions"  # the Go picker's, for a head without one
_HOPS: Final = "x-forwarded-for"
_REQUEST_ID: Final = "x-request-id"
_KNOWN_NAMES: Final = 512
_STATUSES: Final = range(100, 600)  # RFC 9110, section 15: others are invalid


class Line(NamedTuple):
    """Method and path of a request, the path decoded and without its query."""

    method: str
    path: str


def line_of(method: str | None, target: str | None) -> Line:
    """What a request line says; None where the gateway does not tell."""
    path = (target or _DEFAULT_PATH).partition("?")[0]
    return Line(method or "POST", unquote(path) if "%" in path else path)


def request_id_of(headers: Mapping[str, str]) -> bytes | None:
    """The client's or the gateway's `x-request-id`, if it is one."""
    given = headers.get(_REQUEST_ID)
    return None if given is None else find_request_id([(b"x-request-id", given.encode())])


def head_of(line: Line, headers: Mapping[str, str], request_id: bytes, key_name: str | None) -> RequestHead:
    """What the director needs.

    The caller is whom the gateway itself has seen: the last of those for whom it was forwarded.
    """
    client = headers.get(_HOPS, "").rpartition(",")[2].strip() or None
    return RequestHead(request_id.decode("ascii"), line.method, line.path, headers, client, key_name)


def raw(headers: Mapping[str, str]) -> Headers:
    """As they were on the wire."""
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]


def request_mutation(
    headers: Mapping[str, str],
    *,
    request_id: bytes,
    credentials: Credentials | None = None,
    withheld: frozenset[bytes] = frozenset(),
) -> Mutation:
    """What changes of a request's head on its way to the pick, beside the header that names the pick.

    Headers that are `withheld` go.
    """
    replaced: Headers = []
    if headers.get(_REQUEST_ID) != request_id.decode("ascii"):
        replaced.append((b"x-request-id", request_id))
    if credentials is not None and credentials.authorization is not None:
        replaced.append((b"authorization", credentials.authorization))
    removed = removed_names(headers, credentials, withheld)
    return Mutation(replaced, sorted({*removed} - {DESTINATION}) if removed else [])


def removed_names(
    headers: Mapping[str, str], credentials: Credentials | None, withheld: frozenset[bytes] = frozenset()
) -> list[str]:
    """Headers that no client may send to an endpoint; what is replaced is not among them."""
    removed = [name for name in headers if _is_routing_header(name)]
    if credentials is not None:
        replaced = b"authorization" if credentials.authorization is not None else b""
        withheld |= credentials.withheld - {replaced}
    return [*removed, *(text for name in withheld if (text := name.decode("latin-1")) in headers)]


@lru_cache(_KNOWN_NAMES)
def _is_routing_header(name: str) -> bool:
    return is_routing_header(name.encode("latin-1", "replace"))


def response_mutation(
    headers: Mapping[str, str],
    *,
    request_id: bytes,
    endpoint: str | None,
    decision: str | None = None,
    added: tuple[tuple[str, str], ...] = (),
) -> Mutation:
    """What changes of an answer's head on its way to the client; what is None is not sent."""
    replaced: Headers = [(b"x-request-id", request_id)]
    if endpoint is not None:
        replaced.append((b"x-epp-endpoint", endpoint.encode("ascii")))
    if decision is not None:
        replaced.append((b"x-epp-decision", decision.encode("ascii")))
    replaced += [(name.encode("ascii"), value.encode("ascii")) for name, value in added]
    forged = [name for name in headers if name.startswith("x-epp-")]
    return Mutation(replaced, sorted(set(forged) - {name.decode() for name, _ in replaced}) if forged else [])


def status_of(headers: Mapping[str, str]) -> int | None:
    """The status of an answer's head; None where it has none that is one."""
    value = headers.get(":status") or headers.get("status") or ""
    status = int(value) if len(value) == 3 and value.isascii() and value.isdigit() else 0
    return status if status in _STATUSES else None
