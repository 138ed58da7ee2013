"""Settings of endpoints that come and go; a section of `Settings`."""

from dataclasses import dataclass, field

from epp.config.leaf import rules
from epp.endpoints.dns_name import DnsName

__all__ = ["DiscoverySettings"]


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """Endpoints that come and go; those of all sources, `endpoint` included, are one pool."""

    file: str | None = field(
        default=None, metadata=rules("File that lists endpoints; it is followed.", absent="none")
    )
    file_interval_s: float = field(
        default=1.0, metadata=rules("Time between two looks at the file.", minimum=0.01)
    )
    dns: tuple[DnsName, ...] = field(
        default=(),
        metadata=rules(
            "A name all of whose addresses are endpoints: http://name:port, or srv+http://name for SRV "
            "records. Repeatable; in the variable, separated by blanks.",
            absent="none",
        ),
    )
    dns_min_interval_s: float = field(
        default=5.0,
        metadata=rules(
            "Least time between two looks at a name, whatever its TTL; after a failure, the time itself.",
            minimum=0.01,
        ),
    )
    dns_max_interval_s: float = field(
        default=30.0,
        metadata=rules(
            "Longest time between two looks at a name, whatever its TTL; not less than dnsMinInterval.",
            minimum=0.01,
        ),
    )
    dns_confirmations: int = field(
        default=3,
        metadata=rules(
            "Looks in a row that must find a name without addresses before its endpoints go.", minimum=1
        ),
    )
