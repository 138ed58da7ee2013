"""The address of a caller that may stand behind proxies.

`X-Forwarded-For` can be written by anybody. It is believed as far as trusted proxies wrote it: each appends
the address of its own peer, so the list is read from its end, and the first address that is no trusted
proxy's is the caller's.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

__all__ = ["Network", "TrustedProxies", "is_loopback", "parse_network"]

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address
Headers = Iterable[tuple[bytes, bytes]]

_WITH_PORT: Final = re.compile(r"([0-9.]+):[0-9]+|\[([0-9A-Fa-f:.]+)\](?::[0-9]+)?")


def parse_network(text: str) -> Network:
    """A network as `10.0.0.0/8`, or one address.

    Raises:
        ValueError: it is neither; says what to write.
    """
    try:
        return ip_network(text)
    except ValueError:
        pass
    try:
        meant = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is no network; write one like 10.0.0.0/8 or 2001:db8::/32") from None
    raise ValueError(f"{text!r} names a host in a network; write {meant} or {text.partition('/')[0]}")


def is_loopback(address: str) -> bool:
    """Whether it is an address of this machine."""
    found = _address(address)
    return found is not None and found.is_loopback


class TrustedProxies:
    """The networks whose members tell the truth about whom they forward for."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)

    def trusts(self, peer: str) -> bool:
        """Whether `peer` is one of them."""
        address = _address(peer)
        return address is not None and self._holds(address)

    def caller(self, peer: str, headers: Headers) -> str | None:
        """The address of the caller behind `peer`: `peer` itself unless it is trusted.

        None when a trusted proxy forwarded what is no address. Header names are lower-case.
        """
        hops = [hop for name, value in headers if name == b"x-forwarded-for" for hop in _listed(value)]
        address: Address | None = None
        for hop in (peer, *reversed(hops)):
            address = _address(hop)
            if address is None or not self._holds(address):
                break
        return None if address is None else str(address)

    def _holds(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _listed(value: bytes) -> list[str]:
    return [hop.strip() for hop in value.decode("latin-1").split(",")]


def _address(text: str) -> Address | None:
    """An address, None if it is none. A port is left out, as some proxies write one.

    An address of IPv4 in the notation of IPv6, as sockets for both give it, is one of IPv4.
    """
    with_port = _WITH_PORT.fullmatch(text)
    try:
        address = ip_address(with_port[1] or with_port[2] if with_port else text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
