"""header-based-testing-filter."""

import ipaddress
from typing import ClassVar, Final

from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import BuildContext, Cycle, Volatility
from epp.scheduling.registry import NoParameters

__all__ = ["SELECTION_HEADER", "HeaderBasedTestingFilter"]

SELECTION_HEADER: Final = "test-epp-endpoint-selection"

_Name = tuple[str, str]  # host, port; "": any


class HeaderBasedTestingFilter:
    """Keeps the endpoints that the request names, for tests of a gateway (the conformance suite of GIE).

    The header is a comma list of hosts, each maybe with a port. Without the header, or when it names no
    candidate, all are kept. IPv6 addresses with a port stand in brackets, and are compared as addresses.
    """

    type: ClassVar[str] = "header-based-testing-filter"
    volatility: Volatility = "request"

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def build(
        cls, name: str, _parameters: NoParameters, _context: BuildContext
    ) -> "HeaderBasedTestingFilter":
        """Factory for the registry."""
        return cls(name)

    def filter(self, cycle: Cycle) -> tuple[Endpoint, ...]:
        """The candidates to keep, in the same order."""
        header = cycle.headers.get(SELECTION_HEADER)
        if header is None:
            return cycle.candidates
        wanted = {_named(item.strip()) for item in header.split(",")}
        kept = tuple(e for e in cycle.candidates if _names(e) & wanted)
        return kept or cycle.candidates


def _names(endpoint: Endpoint) -> set[_Name]:
    host = _canonical(endpoint.spec.host)
    return {(host, ""), (host, str(endpoint.spec.port))}


def _named(item: str) -> _Name:
    if item.startswith("["):
        host, _, port = item[1:].partition("]")
        return _canonical(host), port.removeprefix(":")
    if item.count(":") == 1:
        host, _, port = item.partition(":")
        return _canonical(host), port
    return _canonical(item), ""


def _canonical(host: str) -> str:
    try:
        return ipaddress.ip_address(host).compressed
    except ValueError:
        return host.lower()
