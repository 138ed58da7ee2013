"""Who calls, and what the caller may do: keys of clients, and the address behind proxies that are trusted.

Pure rules on header lists; certificates are `epp.http.tls`.
"""

from epp.security.gate import Admission, KeyGate
from epp.security.keys import ClientKey, KeyRing, parse_key, parse_keys
from epp.security.peers import Network, TrustedProxies, parse_network

__all__ = [
    "Admission", "ClientKey", "KeyGate", "KeyRing", "Network", "TrustedProxies", "parse_key", "parse_keys",
    "parse_network",
]  # fmt: skip
