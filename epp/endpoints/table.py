"""The endpoint table: one writer, immutable pools for readers."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint, EndpointMetrics, EndpointSpec, ModelInfo, Pool
from epp.endpoints.vitals import Vitals

__all__ = ["EndpointTable", "ReportState", "TableChanges"]

# Up to so many endpoints each scrape makes a new pool; of more, scrapes wait for `publish`. What is computed
# for a new pool takes 1.5 µs an endpoint, and 512 endpoints are scraped thousands of times a second.
_EACH_SCRAPE: Final = 32


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What a `sync` did, by address. One that came back with another uid is both removed and added."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()  # labels, scheme or name differ; the incarnation goes on

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.updated)


@dataclass(frozen=True, slots=True)
class ReportState:
    """When an endpoint's reports came, in monotonic seconds; None: never.

    Attributes:
        scraped_at: the last good scrape.
        failing_since: the first failed scrape after it; None while scraping goes well.
        failures: scrapes that failed since the last good one.
        models_at: the last list of models.
    """

    scraped_at: float | None = None
    failing_since: float | None = None
    failures: int = 0
    models_at: float | None = None


@dataclass(slots=True)
class _Entry:
    endpoint: Endpoint
    vitals: Vitals = field(default_factory=Vitals)
    reports: ReportState = ReportState()


class EndpointTable:
    """Endpoints by address, each in a slot of its own.

    A slot is reused only when `can_reuse(slot)` says that the prefix index holds nothing for it and the
    ledger counts nothing in flight there, so nothing late can reach the next owner.
    `on_incarnation_end(slot)` is called whenever what the endpoint in that slot held is lost: it was removed,
    came back under another uid, restarted, fell asleep, or `end_incarnation` said so. Reports about an
    address that is gone, or about an incarnation that is over, do nothing.
    """

    def __init__(
        self,
        ledger: Ledger,
        on_incarnation_end: Callable[[int], None],
        can_reuse: Callable[[int], bool],
    ) -> None:
        self._ledger = ledger
        self._on_incarnation_end = on_incarnation_end
        self._can_reuse = can_reuse
        self._entries: dict[str, _Entry] = {}
        self._free: list[int] = []
        self._slots = 0
        self._incarnations = 0
        self._version = 0
        self._topology = 0
        self._pool: Pool | None = None
        self._waiting = False  # scrapes that the pool does not show yet
        self._order: list[tuple[str, _Entry]] | None = None

    @property
    def pool(self) -> Pool:
        """All endpoints; the same object until something changes, but see `publish`."""
        if self._pool is None:
            self._pool = self._build_pool()
        return self._pool

    def publish(self) -> None:
        """Let the pool show scrapes that changed nothing but numbers; to be called many times a second."""
        if self._waiting:
            self._waiting = False
            self._changed(topology=False)

    def _build_pool(self) -> Pool:
        self._waiting = False
        # The order outlives metrics, which change far more often than members.
        if self._order is None:
            self._order = sorted(self._entries.items(), key=lambda item: item[1].endpoint.slot)
        by_address = {address: entry.endpoint for address, entry in self._order}
        return Pool(self._version, tuple(by_address.values()), MappingProxyType(by_address), self._topology)

    def endpoint(self, address: str) -> Endpoint | None:
        """One endpoint, without building a pool."""
        entry = self._entries.get(address)
        return entry.endpoint if entry is not None else None

    def reports(self, address: str) -> ReportState | None:
        """When the endpoint's reports came, None when it is not there."""
        entry = self._entries.get(address)
        return entry.reports if entry is not None else None

    def sync(self, specs: Iterable[EndpointSpec], now: float) -> TableChanges:
        """Make the table hold exactly `specs`; of two with one address the later counts."""
        wanted = {spec.address: spec for spec in specs}
        removed = [a for a in list(self._entries) if a not in wanted and self.remove(a)]
        added: list[str] = []
        updated: list[str] = []
        for address, spec in wanted.items():
            known = self.endpoint(address)
            if known is None or known.spec.uid != spec.uid:
                removed.extend([address] if known is not None else [])
                added.append(address)
            elif known.spec != spec:
                updated.append(address)
            self.add(spec, now)
        return TableChanges(tuple(added), tuple(removed), tuple(updated))

    def add(self, spec: EndpointSpec, now: float) -> None:
        """Add an endpoint, or update it: another uid is another incarnation, in another slot."""
        entry = self._entries.get(spec.address)
        if entry is not None and entry.endpoint.spec.uid == spec.uid:
            self._replace(entry, spec=spec)
            return
        self.remove(spec.address)
        slot = self._take_slot()
        self._entries[spec.address] = _Entry(Endpoint(slot, self._next_incarnation(), spec, added_at=now))
        self._changed(topology=True)

    def remove(self, address: str, uid: str | None = None) -> bool:
        """Take an endpoint out; with `uid` only that incarnation. False when it is not there."""
        entry = self._entries.get(address)
        if entry is None or uid not in {None, entry.endpoint.spec.uid}:
            return False
        del self._entries[address]
        self._free.append(entry.endpoint.slot)
        self._changed(topology=True)
        self._on_incarnation_end(entry.endpoint.slot)
        return True

    def _take_slot(self) -> int:
        for slot in sorted(self._free):
            if not self._ledger.requests[slot] and self._can_reuse(slot):
                self._free.remove(slot)
                break
        else:
            slot = self._slots
            self._slots += 1
        self._ledger.reset(slot)
        return slot

    def _next_incarnation(self) -> int:
        self._incarnations += 1
        return self._incarnations

    def update_metrics(
        self, address: str, metrics: EndpointMetrics, now: float, *, incarnation: int | None = None
    ) -> Endpoint | None:
        """Take a good scrape in place of the last one; returns the endpoint as it is then, None when gone.

        A restart keeps the models that were known until `set_models` tells the new ones.
        """
        entry = self._current(address, incarnation)
        if entry is None:
            return None
        if entry.vitals.restarted(metrics):
            entry.vitals = Vitals()
            self._replace(entry, added_at=now)
            self._end(entry)
        elif entry.vitals.fell_asleep(metrics):
            self._end(entry)
        entry.vitals.note(metrics)
        entry.reports = ReportState(scraped_at=now, models_at=entry.reports.models_at)
        self._take_numbers(entry, metrics)
        return entry.endpoint

    def _take_numbers(self, entry: _Entry, metrics: EndpointMetrics) -> None:
        old = entry.endpoint
        only_numbers = old.fresh and old.metrics is not None and old.metrics.awake == metrics.awake
        if not only_numbers or len(self._entries) <= _EACH_SCRAPE:
            self._replace(entry, metrics=metrics, fresh=True)
        elif old.metrics != metrics:
            entry.endpoint = dataclasses.replace(old, metrics=metrics)
            self._waiting = True

    def scrape_failed(self, address: str, now: float, *, incarnation: int | None = None) -> None:
        """Count a failed scrape. The last good values stay until `refresh_staleness` finds them too old."""
        entry = self._current(address, incarnation)
        if entry is not None:
            old = entry.reports
            since = now if old.failing_since is None else old.failing_since
            entry.reports = dataclasses.replace(old, failing_since=since, failures=old.failures + 1)

    def set_models(
        self,
        address: str,
        models: tuple[ModelInfo, ...],
        now: float,
        *,
        incarnation: int | None = None,
    ) -> None:
        """The endpoint listed what it serves."""
        entry = self._current(address, incarnation)
        if entry is not None:
            entry.reports = dataclasses.replace(entry.reports, models_at=now)
            self._replace(entry, topology=True, models=models)

    def mark_draining(self, address: str, *, draining: bool = True) -> None:
        """The endpoint takes no new request and finishes those it has."""
        entry = self._entries.get(address)
        if entry is not None:
            self._replace(entry, draining=draining)

    def end_incarnation(self, address: str) -> None:
        """What the endpoint held is lost, though its process goes on: a cache reset or a sleep through us."""
        entry = self._entries.get(address)
        if entry is not None:
            self._end(entry)

    def refresh_staleness(self, now: float, threshold_s: float) -> None:
        """Mark endpoints whose last good scrape is older than `threshold_s`, and unmark the others."""
        for entry in self._entries.values():
            scraped_at = entry.reports.scraped_at
            fresh = scraped_at is not None and now - scraped_at <= threshold_s
            if entry.endpoint.fresh is not fresh:
                self._replace(entry, fresh=fresh)

    def _current(self, address: str, incarnation: int | None) -> _Entry | None:
        entry = self._entries.get(address)
        if entry is None or incarnation not in {None, entry.endpoint.incarnation}:
            return None
        return entry

    def _end(self, entry: _Entry) -> None:
        self._replace(entry, topology=True, incarnation=self._next_incarnation())
        self._on_incarnation_end(entry.endpoint.slot)

    def _replace(self, entry: _Entry, *, topology: bool = False, **fields: Any) -> None:
        """Change the endpoint's fields; nothing happens when they are what they were."""
        if any(getattr(entry.endpoint, name) != value for name, value in fields.items()):
            entry.endpoint = dataclasses.replace(entry.endpoint, **fields)
            self._changed(topology=topology)

    def _changed(self, *, topology: bool) -> None:
        self._version += 1
        self._pool = None
        if topology:
            self._topology += 1
            self._order = None
