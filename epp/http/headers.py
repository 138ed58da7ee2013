"""Header rules of the proxy, as pure functions on raw header lists.

What no rule names is forwarded byte for byte, in its order, with names as they were written: bytes outside
ASCII and repeated headers included. Names are compared without case.

    request, client to endpoint                      response, endpoint to client
    hop-by-hop, and what Connection lists: dropped   the same
    host: the endpoint's                             date, server: one each, the router's
    content-length: the upstream client's            content-length: kept only if it frames what is sent
    expect: dropped (the router has the whole body)
    x-request-id: one, valid                         x-request-id: the request's
    x-forwarded-*, forwarded, x-real-ip: dropped     x-epp-*: dropped, then x-epp-endpoint is set
      unless a trusted proxy sent them
    x-forwarded-for: the peer is appended
    x-forwarded-proto, -host: set unless present
    forwarded: the peer is appended where present
    routing headers that the router or a gateway owns: dropped
    authorization, x-api-key: see `Credentials`
"""

import enum
import os
import re
from dataclasses import dataclass
from functools import lru_cache

from epp.http.types import Headers

__all__ = [
    "Credentials", "find_request_id", "is_routing_header", "new_request_id", "request_headers",
    "response_headers",
]  # fmt: skip

_HOP_BY_HOP = frozenset((
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
))  # fmt: skip
_FORWARDED = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"forwarded"))
# A client must not choose an endpoint, a tenant or a prefill peer: these are set inside the trust border.
_ROUTING = frozenset((
    b"x-gateway-inference-fairness-id", b"x-gateway-inference-objective", b"x-gateway-model-name-rewrite",
    b"x-slo-ttft-ms", b"x-slo-tpot-ms", b"x-prefiller-host-port", b"x-encoder-hosts-ports",
    b"x-data-parallel-host-port", b"x-kv-cache-source-host-port",
))  # fmt: skip
_ROUTING_PREFIXES = (b"x-gateway-destination-endpoint", b"x-llm-d-", b"x-epp-")
# What an untrusted peer says of callers behind it is not passed on.
_UNTRUSTED_PREFIXES = (*_ROUTING_PREFIXES, b"x-forwarded-", b"x-real-ip")
_REQUEST_OWN = frozenset((b"host", b"content-length", b"expect", b"x-request-id"))
_REQUEST_SPECIAL = _HOP_BY_HOP | _FORWARDED | _ROUTING | _REQUEST_OWN
_RESPONSE_SPECIAL = _HOP_BY_HOP | frozenset((b"date", b"server", b"content-length", b"x-request-id"))
_KNOWN_NAMES = 512
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


@dataclass(slots=True, repr=False)
class Credentials:
    """What takes the place of the credentials that clients send.

    Attributes:
        withheld: names, in lower case, of headers that no endpoint gets.
        authorization: value of the header that every endpoint gets; None sends none. Replaced when the key
            is exchanged.
    """

    withheld: frozenset[bytes]
    authorization: bytes | None = None

    def replace(self, headers: Headers) -> Headers:
        """The headers with these credentials in place of the client's."""
        kept = [header for header in headers if header[0].lower() not in self.withheld]
        if self.authorization is not None:
            kept.append((b"authorization", self.authorization))
        return kept


class _Rule(enum.Enum):
    """What becomes of a header."""

    KEEP = enum.auto()
    KEEP_IF_TRUSTED = enum.auto()
    SPECIAL = enum.auto()
    DROP = enum.auto()


# Names come from a few clients and repeat with each request.
@lru_cache(_KNOWN_NAMES)
def _request_rule(written: bytes) -> tuple[bytes, _Rule]:
    """The name in lower case, and its rule on the way to the endpoint."""
    name = written.lower()
    if name in _REQUEST_SPECIAL:
        return name, _Rule.SPECIAL
    if name.startswith(_ROUTING_PREFIXES):
        return name, _Rule.DROP
    return name, _Rule.KEEP_IF_TRUSTED if name.startswith(_UNTRUSTED_PREFIXES) else _Rule.KEEP


@lru_cache(_KNOWN_NAMES)
def _response_rule(written: bytes) -> tuple[bytes, _Rule]:
    """The name in lower case, and its rule on the way to the client."""
    name = written.lower()
    if name in _RESPONSE_SPECIAL:
        return name, _Rule.SPECIAL
    return name, _Rule.DROP if name.startswith(b"x-epp-") else _Rule.KEEP


def request_headers(
    headers: Headers,
    *,
    request_id: bytes,
    client: bytes | None,
    scheme: bytes = b"http",
    trusted: bool = False,
    credentials: Credentials | None = None,
) -> Headers:
    """Headers for the endpoint, from those the client sent.

    `client` is the peer's address without a port, None if it has none; `scheme` is how it connected;
    `trusted`: it is a proxy that is believed whom it forwards for. Without `credentials` the client's pass.
    """
    kept: Headers = []
    special: dict[bytes, list[bytes]] = {}
    rule_of = _request_rule
    for header in headers:
        name, rule = rule_of(header[0])
        if rule is _Rule.KEEP or (trusted and rule is _Rule.KEEP_IF_TRUSTED):
            kept.append(header)
        elif rule is _Rule.SPECIAL:
            special.setdefault(name, []).append(header[1])
    kept = _without_listed(kept, special)
    if credentials is not None:
        kept = credentials.replace(kept)
    kept.append((b"x-request-id", request_id))
    kept += _forwarding(special if trusted else {}, special.get(b"host"), client, scheme)
    return kept


def _forwarding(
    said: dict[bytes, list[bytes]], host: list[bytes] | None, client: bytes | None, scheme: bytes
) -> Headers:
    """For whom the request is forwarded: what was `said` by a trusted proxy, continued."""
    hops = said.get(b"x-forwarded-for", [])
    if client is not None:
        hops = [*hops, client]
    headers: Headers = [(b"x-forwarded-for", b", ".join(hops))] if hops else []
    headers.append((b"x-forwarded-proto", said.get(b"x-forwarded-proto", [scheme])[0]))
    hosts = said.get(b"x-forwarded-host") or host
    if hosts:
        headers.append((b"x-forwarded-host", hosts[0]))
    elements = said.get(b"forwarded")
    if elements:
        headers.append((b"forwarded", b", ".join([*elements, _element(client)])))
    return headers


def _element(client: bytes | None) -> bytes:
    """The peer as an element of `forwarded` (RFC 7239 section 4)."""
    if client is None:
        return b"for=unknown"
    return b'for="[%b]"' % client if b":" in client else b"for=" + client


def response_headers(
    headers: Headers,
    *,
    request_id: bytes,
    endpoint: bytes | None,
    keep_content_length: bool,
    date: bytes | None = None,
    server: bytes | None = None,
) -> Headers:
    """Headers for the client, from those the endpoint sent.

    `endpoint` becomes `x-epp-endpoint`, None switches it off. `keep_content_length`: the body is sent as it
    came, or there is none (HEAD, 304). `date` and `server` are None when the server below writes its own.
    """
    kept: Headers = []
    special: dict[bytes, list[bytes]] = {}
    rule_of = _response_rule
    for header in headers:
        name, rule = rule_of(header[0])
        if rule is _Rule.KEEP:
            kept.append(header)
        elif rule is _Rule.SPECIAL:
            special.setdefault(name, []).append(header[1])
    kept = _without_listed(kept, special)
    own = ((b"date", date), (b"server", server), (b"x-epp-endpoint", endpoint), (b"x-request-id", request_id))
    if keep_content_length and b"content-length" in special:
        kept.append((b"content-length", special[b"content-length"][0]))
    kept += [(name, value) for name, value in own if value is not None]
    return kept


def is_routing_header(name: bytes) -> bool:
    """Whether a header (its name in lower case) belongs to a router or a gateway: no client may set it."""
    return name in _ROUTING or name.startswith(_ROUTING_PREFIXES)


def find_request_id(headers: Headers) -> bytes | None:
    """The client's `x-request-id` if it is 1 to 128 visible ASCII characters, else None."""
    for name, value in headers:
        if len(name) == 12 and name.lower() == b"x-request-id":
            return value if _REQUEST_ID.fullmatch(value) else None
    return None


def new_request_id() -> bytes:
    """128 random bits in hexadecimal."""
    return os.urandom(16).hex().encode()


def _without_listed(kept: Headers, special: dict[bytes, list[bytes]]) -> Headers:
    """Drop what `connection` lists: those headers were for this hop only."""
    if b"connection" not in special:
        return kept
    listed = {token.strip().lower() for value in special[b"connection"] for token in value.split(b",")}
    if listed <= {b"keep-alive", b"close"}:
        return kept
    return [header for header in kept if header[0].lower() not in listed]
