"""How an operator writes a DNS name that stands for endpoints: `http://name:port`, `srv+http://_svc._tcp.name`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

from epp.endpoints.spec import read_url

__all__ = ["DnsName", "parse_dns_name"]

_SRV: Final = "srv+"
_EXAMPLE: Final = "write it like http://vllm.internal:8000 or srv+http://_http._tcp.vllm.internal"


@dataclass(frozen=True, slots=True)
class DnsName:
    """A name all of whose addresses are endpoints.

    Attributes:
        scheme: "http" or "https", of every endpoint.
        name: what is looked up.
        port: of every endpoint; None: SRV records tell hosts and ports.
        labels: of every endpoint.
    """

    scheme: str
    name: str
    port: int | None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def url(self) -> str:
        """As it was written, without labels."""
        if self.port is None:
            return f"{_SRV}{self.scheme}://{self.name}"
        return f"{self.scheme}://{self.name}:{self.port}"


def parse_dns_name(text: str) -> DnsName:
    """A name, labels after commas. The port is 80 or 443 where it is left out; with `srv+` there is none.

    Raises:
        ValueError: says what is wrong and how to write it.
    """
    stripped = text.strip()
    srv = stripped.startswith(_SRV)
    url = read_url(stripped.removeprefix(_SRV), "the DNS name", _EXAMPLE)
    if _is_address(url.host):
        raise ValueError(f"{url.host} is an address, not a name; give it as an endpoint")
    if srv and url.given_port is not None:
        raise ValueError(f"SRV records tell the port, leave :{url.given_port} out; {_EXAMPLE}")
    return DnsName(url.scheme, url.host, None if srv else url.port, url.labels)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
