"""Asks every endpoint for its metrics page, again and again."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from epp.clock import Clock
from epp.endpoints.types import Endpoint, EndpointMetrics
from epp.http import UpstreamRequest
from epp.scrape.page import Page, PageError, PageReader
from epp.scrape.probing import Fetch, ScrapeError, ScrapeFault, Sleep, ask, probe_headers
from epp.scrape.repeats import RepeatLog
from epp.scrape.watch import Watch, Watched

__all__ = ["ScrapeSettings", "ScrapeSink", "Scraper"]

_FLOOR_S: Final = 0.05
_GOLDEN_RATIO: Final = 0.618034  # its multiples modulo 1 spread evenly, however many there are
_ENGINE_LABELS: Final = ("llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type")
_ENGINE_PATHS: Final[Mapping[str, str]] = {"trtllm-serve": "/prometheus/metrics"}


class ScrapeSink(Protocol):
    """Takes results. `incarnation` is the endpoint's when the scrape began, `now` is monotonic seconds."""

    def on_metrics(self, address: str, incarnation: int, metrics: EndpointMetrics, now: float) -> None:
        """A page came and was read."""
        ...

    def on_failure(self, address: str, incarnation: int, kind: ScrapeFault, detail: str, now: float) -> None:
        """Nothing came, or nothing that can be read."""
        ...


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    """How to scrape.

    Attributes:
        path: of the page; None is /metrics, or /prometheus/metrics where a label says trtllm-serve.
        scheme: overrides the endpoints' own.
        api_key: sent as a bearer token; None sends no authorization, and engines need none for metrics.
        refresh_interval_s: from one scrape to the next; None adapts to load. Never below 50 ms.
        idle_interval_s, busy_interval_s: the adaptive interval without and with requests at the endpoint.
        timeout_s: of one scrape.
        stale_s: how long the last good value stands in for one that cannot be true.
    """

    path: str | None = None
    scheme: str | None = None
    api_key: str | None = None
    refresh_interval_s: float | None = None
    idle_interval_s: float = 0.5
    busy_interval_s: float = 0.2
    timeout_s: float = 2.0
    stale_s: float = 2.0


@dataclass(slots=True)
class _Memory:
    """What one endpoint's task remembers of this incarnation."""

    incarnation: int
    metrics: EndpointMetrics | None = None
    read_at: float = 0.0
    stood_in: dict[str, float] = field(default_factory=dict)  # field → when its value was read


class Scraper:
    """Scrapes each endpoint in its own task: never two scrapes of one at once, and none delays another.

    `in_flight(address)` tells the requests that this router has at an endpoint; `sleep` waits so many
    seconds; `log` takes one line. Failures of one endpoint are logged at most every 30 s.
    """

    def __init__(
        self,
        fetch: Fetch,
        sink: ScrapeSink,
        settings: ScrapeSettings,
        *,
        clock: Clock,
        sleep: Sleep,
        in_flight: Callable[[str], int],
        log: Callable[[str], None],
        reader: PageReader | None = None,
    ) -> None:
        self._fetch = fetch
        self._sink = sink
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._in_flight = in_flight
        self._log = log
        self._reader = reader or PageReader()
        self._headers = probe_headers(b"text/plain", settings.api_key)
        self._watch = Watch(self._scrape_for_ever)

    def use_key(self, api_key: str) -> None:
        """Send another bearer token from the next scrape on."""
        self._headers = probe_headers(b"text/plain", api_key)

    def sync(self, endpoints: Iterable[Endpoint]) -> None:
        """Scrape exactly these endpoints, a new one at once."""
        self._watch.sync(endpoints)

    def start(self) -> None:
        """Begin; needs a running event loop."""
        interval_s = self._settings.refresh_interval_s
        if interval_s is not None and interval_s < _FLOOR_S:
            self._log(f"a refresh interval of {interval_s:g} s is too short, 50 ms is used")
        self._watch.start()

    async def stop(self) -> None:
        """End every task."""
        await self._watch.stop()

    async def _scrape_for_ever(self, watched: Watched) -> None:
        memory = _Memory(watched.endpoint.incarnation)
        repeats = RepeatLog(self._log, f"scraping {watched.endpoint.address}")
        share = (watched.number * _GOLDEN_RATIO) % 1.0  # only the first wait: it spreads the endpoints
        while True:
            began = self._clock.monotonic()
            interval_s = self._settings.idle_interval_s
            try:
                await self._scrape(watched.endpoint, memory, repeats)
                interval_s = self._interval_s(watched.endpoint.address, memory.metrics)
            except Exception as error:  # noqa: BLE001  a fault of a callback must not end the scraping
                repeats.failed(f"result not taken: {error!r}", began)
            due = began + interval_s * share
            share = 1.0
            await self._sleep(max(_FLOOR_S, due - self._clock.monotonic()))

    async def _scrape(self, endpoint: Endpoint, memory: _Memory, repeats: RepeatLog) -> None:
        incarnation = endpoint.incarnation
        try:
            page = await self._page(endpoint)
        except ScrapeError as error:
            now = self._clock.monotonic()
            repeats.failed(str(error), now)
            self._sink.on_failure(endpoint.address, incarnation, error.fault, error.detail, now)
            return
        now = self._clock.monotonic()
        if memory.incarnation != incarnation:
            memory.incarnation, memory.metrics = incarnation, None
            memory.stood_in.clear()
        metrics = _with_stand_ins(page, memory, now, self._settings.stale_s)
        memory.metrics, memory.read_at = metrics, now
        repeats.worked()
        self._sink.on_metrics(endpoint.address, incarnation, metrics, now)

    async def _page(self, endpoint: Endpoint) -> Page:
        target = page_path(endpoint, self._settings.path).encode()
        request = UpstreamRequest(b"GET", target, self._headers, b"")
        body = await ask(self._fetch, endpoint, self._settings.scheme, request, self._settings.timeout_s)
        try:
            return self._reader.read(body)
        except PageError as error:
            raise ScrapeError(ScrapeFault.PARSE, str(error)) from None

    def _interval_s(self, address: str, metrics: EndpointMetrics | None) -> float:
        settings = self._settings
        if settings.refresh_interval_s is not None:
            return max(_FLOOR_S, settings.refresh_interval_s)
        elsewhere = metrics is not None and bool(metrics.running or metrics.waiting)
        return settings.busy_interval_s if elsewhere or self._in_flight(address) else settings.idle_interval_s


def page_path(endpoint: Endpoint, configured: str | None) -> str:
    """Path of the endpoint's page: as configured, else as its engine serves it."""
    if configured is not None:
        return configured
    engines = (endpoint.spec.labels.get(label, "") for label in _ENGINE_LABELS)
    return next((_ENGINE_PATHS[engine] for engine in engines if engine in _ENGINE_PATHS), "/metrics")


def _with_stand_ins(page: Page, memory: _Memory, now: float, stale_s: float) -> EndpointMetrics:
    """The page's metrics, with the last good values for refused ones as long as these are not stale."""
    previous = memory.metrics
    if not page.rejected or previous is None:
        memory.stood_in.clear()
        return page.metrics
    read_at = {name: memory.stood_in.get(name, memory.read_at) for name in page.rejected}
    memory.stood_in = {name: at for name, at in read_at.items() if now - at <= stale_s}
    values = {name: getattr(previous, name) for name in memory.stood_in}
    return msgspec.structs.replace(page.metrics, **values)
