"""What is known of a request when its head has come: its id, who sent it, and whether it may go on."""

from collections.abc import Callable

import msgspec

from epp.director import RequestHead
from epp.errors import EppError
from epp.http.headers import find_request_id
from epp.proxy.asgi import Scope
from epp.proxy.heads import texts_of
from epp.security import Admission, KeyGate, TrustedProxies

__all__ = ["Arrival", "arrival_of"]

_OPEN = Admission()


class Arrival(msgspec.Struct, frozen=True):
    """`refusal` is None for a request that may go on; `trusted`: the peer is a proxy that is believed."""

    request_id: bytes
    head: RequestHead
    refusal: EppError | None
    trusted: bool


def arrival_of(
    scope: Scope, new_request_id: Callable[[], bytes], gate: KeyGate | None, proxies: TrustedProxies | None
) -> Arrival:
    """Judge a request; without `gate` it needs no key, without `proxies` no peer is trusted."""
    headers = texts_of(scope["headers"])
    given = find_request_id(scope["headers"]) if "x-request-id" in headers else None
    request_id = given or new_request_id()
    admission = _OPEN if gate is None else gate.admit(scope["method"], scope["headers"])
    trusted, client = _caller(scope, proxies)
    head = RequestHead(
        request_id.decode("ascii"), scope["method"], scope["path"], headers, client, admission.key_name
    )
    return Arrival(request_id, head, admission.error, trusted)


def _caller(scope: Scope, proxies: TrustedProxies | None) -> tuple[bool, str | None]:
    """Whether the peer is a trusted proxy, and the address of the caller."""
    peer = scope["client"][0] if scope.get("client") else None
    if proxies is None or peer is None:
        return False, peer
    return proxies.trusts(peer), proxies.caller(peer, scope["headers"])
