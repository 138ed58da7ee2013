"""Who may see receipts and `/debug`: predicted hits tell what others asked.

Allowed are holders of the admin key, everybody on the admin listener, and callers from loopback, unless the
request came through a proxy (then the peer's address is the proxy's, not the caller's).
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from starlette.types import Scope

__all__ = ["ADMIN_LISTENER", "AccessPolicy"]

ADMIN_LISTENER: Final = "epp.admin_listener"  # set in a scope's state by the admin listener
_FORWARDED: Final = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip"})


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """`admin_key` is None where none is configured."""

    admin_key: str | None = None

    def allows(self, scope: Scope) -> bool:
        """Whether the caller of this request may see receipts."""
        if scope.get("state", {}).get(ADMIN_LISTENER):
            return True
        headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
        return self._has_key(headers) or _from_loopback(scope, headers)

    def _has_key(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        if self.admin_key is None:
            return False
        given = next((value for name, value in headers if name == b"x-epp-admin-key"), b"")
        return hmac.compare_digest(given, self.admin_key.encode())


def _from_loopback(scope: Scope, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    client = scope.get("client")
    if client is None:  # a Unix socket: the file's permissions are the guard
        return True
    try:
        loopback = ip_address(client[0]).is_loopback
    except ValueError:
        return False
    return loopback and not any(name in _FORWARDED for name, _ in headers)
