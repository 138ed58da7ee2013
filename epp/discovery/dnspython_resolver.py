"""Looks names up with dnspython, which takes 40 ms to load: only for those who have names to look up."""

from typing import Final

import dns.asyncresolver
import dns.exception
import dns.name
import dns.rdata
import dns.resolver
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA
from dns.rdtypes.IN.SRV import SRV

from epp.discovery.resolver import Answer, LookupFailedError, Record, RecordKind

__all__ = ["DnspythonResolver"]

_LIFETIME_S: Final = 5.0  # of one look-up, all servers and repeats together


class DnspythonResolver:
    """Asks the servers of /etc/resolv.conf, or those given, with its search list and its ndots.

    Truncated answers are asked for again over TCP. /etc/hosts is not read.
    """

    def __init__(
        self, servers: tuple[str, ...] = (), port: int = 53, lifetime_s: float = _LIFETIME_S
    ) -> None:
        self._servers = servers
        self._port = port
        self._lifetime_s = lifetime_s

    async def look_up(self, name: str, kind: RecordKind) -> Answer:
        """All records of a kind; see `Resolver`."""
        try:
            found = await self._resolver().resolve(
                name, kind, raise_on_no_answer=False, search=True, lifetime=self._lifetime_s
            )
        except dns.resolver.NXDOMAIN:
            return Answer()
        except (dns.exception.DNSException, OSError) as error:
            raise LookupFailedError(_first_line(error)) from None
        records = tuple(record for data in found.rrset or () if (record := _record(data)) is not None)
        return Answer(records, float(found.chaining_result.minimum_ttl) if records else None)

    def _resolver(self) -> dns.asyncresolver.Resolver:
        # Made anew for each look-up, so that a changed /etc/resolv.conf counts.
        resolver = dns.asyncresolver.Resolver(configure=not self._servers)
        if self._servers:
            resolver.nameservers = list(self._servers)
            resolver.port = self._port
        return resolver


def _record(data: dns.rdata.Rdata) -> Record | None:
    if isinstance(data, A | AAAA):
        return Record(data.address)
    # The root as target means that the service is not offered (RFC 2782).
    if not isinstance(data, SRV) or data.target == dns.name.root or not data.port:
        return None
    return Record(data.target.to_text(omit_final_dot=True), data.port)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]
