"""Endpoints that a DNS name stands for."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from epp.discovery.resolver import LookupFailedError, Record, RecordKind, Resolver
from epp.discovery.source import Pause, Sink
from epp.endpoints.dns_name import DnsName
from epp.endpoints.types import EndpointSpec

__all__ = ["DnsPolicy", "DnsSource"]

_AT_A_TIME: Final = 16  # look-ups of one source under way

_Key = tuple[str, RecordKind]


@dataclass(frozen=True, slots=True)
class DnsPolicy:
    """When to look again, and when to believe that a name is empty.

    Attributes:
        min_interval_s: least time between two looks, whatever the TTL; the time itself after a look that
            failed or found nothing.
        max_interval_s: longest time between two looks, whatever the TTL.
        confirmations: looks in a row that must find nothing.
    """

    min_interval_s: float = 5.0
    max_interval_s: float = 30.0
    confirmations: int = 3


@dataclass(slots=True)
class _Look:
    """What one look brings together; `records` are those of the look-ups that worked."""

    specs: dict[str, EndpointSpec] = field(default_factory=dict)
    records: dict[_Key, tuple[Record, ...]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    ttls: list[float] = field(default_factory=list)


class DnsSource:
    """Follows a name: all addresses of its A and AAAA records, or of the targets of its SRV records.

    A look-up that fails leaves the records that it found last time, so half an answer takes nothing away. A
    name without any address (it does not exist, or nothing is behind it) keeps its endpoints until
    `confirmations` looks in a row agree: servers that have just started do not know their names yet. An
    address that is missing among others is gone at once.
    """

    def __init__(
        self, target: DnsName, resolver: Resolver, *, pause: Pause, policy: DnsPolicy | None = None
    ) -> None:
        self.name = f"dns {target.url}"
        self._target = target
        self._resolver = resolver
        self._pause = pause
        self._policy = policy or DnsPolicy()
        self._records: dict[_Key, tuple[Record, ...]] = {}  # of the last looks
        self._empty_looks = 0
        self._slots = asyncio.Semaphore(_AT_A_TIME)

    async def run(self, sink: Sink) -> None:
        """Look when the TTL ends, within the policy's bounds, and at once when the pause is cut short."""
        while True:
            look = _Look()
            await (self._look_at_addresses if self._target.port else self._look_at_services)(look)
            self._tell(sink, look)
            await self._pause(self._wait_s(look))

    async def _look_at_addresses(self, look: _Look) -> None:
        addresses = await self._addresses(look, self._target.name)
        self._add(look, addresses, self._target.port or 0, "")

    async def _look_at_services(self, look: _Look) -> None:
        services = await self._look_up(look, self._target.name, "SRV")
        found = await asyncio.gather(*(self._addresses(look, f"{service.host}.") for service in services))
        for service, addresses in zip(services, found, strict=True):
            self._add(look, addresses, service.port, service.host)

    async def _addresses(self, look: _Look, host: str) -> list[Record]:
        both = await asyncio.gather(self._look_up(look, host, "A"), self._look_up(look, host, "AAAA"))
        return [record for records in both for record in records]

    async def _look_up(self, look: _Look, name: str, kind: RecordKind) -> tuple[Record, ...]:
        """The records of a name, those of the last look when nobody can tell."""
        key = (name, kind)
        try:
            async with self._slots:
                answer = await self._resolver.look_up(name, kind)
        except LookupFailedError as error:
            look.failures.append(f"{kind} of {name}: {error}")
            look.records[key] = self._records.get(key, ())
            return look.records[key]
        if answer.ttl_s is not None:
            look.ttls.append(answer.ttl_s)
        look.records[key] = answer.records
        return answer.records

    def _add(self, look: _Look, addresses: Iterable[Record], port: int, name: str) -> None:
        for address in addresses:
            spec = EndpointSpec(self._target.scheme, address.host, port, self._target.labels, name=name)
            look.specs.setdefault(spec.address, spec)

    def _tell(self, sink: Sink, look: _Look) -> None:
        if look.specs:
            self._empty_looks = 0
            self._records = look.records
            sink.publish(_in_order(look))
        elif not look.failures:
            self._empty_looks += 1
            look.failures.append(f"{self._target.name} has no addresses")
            if self._empty_looks == self._policy.confirmations:
                self._records = {}
                sink.publish(())
        if look.failures:
            sink.fail("; ".join(sorted(set(look.failures))))

    def _wait_s(self, look: _Look) -> float:
        policy = self._policy
        if look.failures:
            return policy.min_interval_s
        return min(max(min(look.ttls, default=0.0), policy.min_interval_s), policy.max_interval_s)


def _in_order(look: _Look) -> tuple[EndpointSpec, ...]:
    """Servers rotate their answers; a set that is the same is told the same."""
    return tuple(look.specs[address] for address in sorted(look.specs))
