"""Who may see receipts and `/debug`: predicted hits tell what others asked.

Allowed are holders of the admin key, everybody on the admin listener, and callers from loopback. A request
that a proxy on loopback forwards is not the proxy's own: it is refused, unless the proxy is trusted and says
that its own caller is on loopback too.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

from epp.security import TrustedProxies
from epp.security.peers import is_loopback

__all__ = ["ADMIN_LISTENER", "AccessPolicy"]

ADMIN_LISTENER: Final = "epp.admin_listener"  # set in a scope's state by the admin listener
_HOPS: Final = b"x-forwarded-for"
_FORWARDED: Final = frozenset({b"forwarded", b"via", b"x-real-ip", _HOPS})

Headers = Iterable[tuple[bytes, bytes]]


@dataclass(slots=True, repr=False)
class AccessPolicy:
    """Judges callers.

    Attributes:
        admin_key: None where none is configured; replaced when its file changes.
        proxies: peers that are believed whom they forward for.
        loopback: callers from loopback are allowed.
    """

    admin_key: str | None = None
    proxies: TrustedProxies | None = None
    loopback: bool = True

    def allows(self, scope: Scope) -> bool:
        """Whether the caller of this request may see receipts."""
        if scope.get("state", {}).get(ADMIN_LISTENER):
            return True
        headers: Headers = scope["headers"]
        return self.has_key(headers) or (self.loopback and self._is_local(scope, headers))

    def has_key(self, headers: Headers) -> bool:
        """Whether a request with these headers shows the admin key."""
        if self.admin_key is None:
            return False
        given = next((value for name, value in headers if name == b"x-epp-admin-key"), b"")
        return hmac.compare_digest(given, self.admin_key.encode())

    def _is_local(self, scope: Scope, headers: Headers) -> bool:
        forwarded = {name for name, _ in headers} & _FORWARDED
        client = scope.get("client")
        if client is None:  # a Unix socket: the file's permissions are the guard
            return not forwarded
        if not is_loopback(client[0]):
            return False
        if not forwarded:
            return True
        if self.proxies is None or _HOPS not in forwarded or not self.proxies.trusts(client[0]):
            return False
        caller = self.proxies.caller(client[0], headers)
        return caller is not None and is_loopback(caller)
