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

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import compress
from operator import itemgetter

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
_REQUEST_READ = frozenset((b"connection", b"host"))
_REQUEST_SPECIAL = _HOP_BY_HOP | _FORWARDED | _ROUTING | _REQUEST_OWN
_RESPONSE_READ = frozenset((b"connection", b"content-length"))
_RESPONSE_SPECIAL = _HOP_BY_HOP | frozenset((b"date", b"server", b"content-length", b"x-request-id"))
_KNOWN_HEADS = 256
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


# For each header of a head whether it passes, and where those stand that are read, by name in lower case.
_Places = tuple[tuple[bool, ...], dict[bytes, tuple[int, ...]]]
_Rule = Callable[[tuple[bytes, ...]], _Places]

_name_of = itemgetter(0)


def _places(
    read: frozenset[bytes], special: frozenset[bytes], dropped: tuple[bytes, ...], names: tuple[bytes, ...]
) -> _Places:
    lower = [name.lower() for name in names]
    pass_on = tuple(not (name in special or name.startswith(dropped)) for name in lower)
    found = {name: tuple(at for at, other in enumerate(lower) if other == name) for name in read}
    return pass_on, {name: at for name, at in found.items() if at}


def _known(read: frozenset[bytes], special: frozenset[bytes], *dropped: bytes) -> _Rule:
    # A peer sends the same names in the same order with each message.
    return lru_cache(_KNOWN_HEADS)(partial(_places, read, special, dropped))


_OF_CLIENT = _known(_REQUEST_READ, _REQUEST_SPECIAL, *_UNTRUSTED_PREFIXES)
_OF_TRUSTED = _known(_REQUEST_READ | _FORWARDED, _REQUEST_SPECIAL, *_ROUTING_PREFIXES)
_OF_ENDPOINT = _known(_RESPONSE_READ, _RESPONSE_SPECIAL, b"x-epp-")


def _parted(headers: Headers, rule: _Rule) -> tuple[Headers, dict[bytes, tuple[int, ...]]]:
    """The headers that pass by `rule`, and where those stand that it reads, by name."""
    pass_on, read = rule(tuple(map(_name_of, headers)))
    kept = list(compress(headers, pass_on))
    if b"connection" in read:
        listed = _listed(b",".join([headers[at][1] for at in read[b"connection"]]))
        if listed:
            kept = [header for header in kept if header[0].lower() not in listed]
    return kept, read


@lru_cache(_KNOWN_HEADS)
def _listed(connection: bytes) -> frozenset[bytes]:
    """The headers that `connection` lists: they are for one hop only."""
    listed = frozenset(token.strip().lower() for token in connection.split(b","))
    return frozenset() if listed <= {b"keep-alive", b"close"} else listed


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
    kept, read = _parted(headers, _OF_TRUSTED if trusted else _OF_CLIENT)
    if credentials is not None:
        kept = credentials.replace(kept)
    kept.append((b"x-request-id", request_id))
    if trusted:
        said = {name: [headers[at][1] for at in places] for name, places in read.items()}
        return kept + _continued(said, client, scheme)
    if client is not None:
        kept.append((b"x-forwarded-for", client))
    kept.append((b"x-forwarded-proto", scheme))
    if b"host" in read:
        kept.append((b"x-forwarded-host", headers[read[b"host"][0]][1]))
    return kept


def _continued(said: dict[bytes, list[bytes]], client: bytes | None, scheme: bytes) -> Headers:
    """For whom the request is forwarded: what was `said` by a trusted proxy, continued."""
    hops = said.get(b"x-forwarded-for", [])
    if client is not None:
        hops = [*hops, client]
    headers: Headers = [(b"x-forwarded-for", b", ".join(hops))] if hops else []
    headers.append((b"x-forwarded-proto", said.get(b"x-forwarded-proto", [scheme])[0]))
    hosts = said.get(b"x-forwarded-host") or said.get(b"host")
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
    kept, read = _parted(headers, _OF_ENDPOINT)
    if keep_content_length and b"content-length" in read:
        kept.append((b"content-length", headers[read[b"content-length"][0]][1]))
    if date is not None:
        kept.append((b"date", date))
    if server is not None:
        kept.append((b"server", server))
    if endpoint is not None:
        kept.append((b"x-epp-endpoint", endpoint))
    kept.append((b"x-request-id", request_id))
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
