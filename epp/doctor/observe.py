"""Asks the endpoints; the only part of this room that touches the network."""

import asyncio
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from epp.clock import Clock, SystemClock
from epp.doctor.observation import Answer, Observation, read_observation
from epp.endpoints.types import Endpoint, EndpointSpec
from epp.http import (
    ErrorKind,
    FetchError,
    Headers,
    Origin,
    Response,
    UpstreamPool,
    UpstreamRequest,
    UpstreamSettings,
)
from epp.scrape import CoreNames, Fetch, ScrapeError, fetch_through, read_models
from epp.scrape.probing import probe_headers
from epp.scrape.scraper import page_path

__all__ = ["ObserveOptions", "observe", "observe_all", "observe_endpoints"]

_DEFAULT_PATH: Final = "/metrics"
_TELL_EVERY_S: Final = 1.0
_NO_CONNECTION: Final = (ErrorKind.CONNECT, ErrorKind.CONNECT_TIMEOUT)
_TIMEOUT: Final = re.compile(rb"timeout=(\d+)")


@dataclass(frozen=True, slots=True)
class ObserveOptions:
    """How to ask.

    Attributes:
        metrics_path: `metrics.path` of the settings.
        api_key: sent as a bearer token; None sends no authorization.
        timeout_s: of each request.
        probe: also send a completion of one token.
        names: gauges that go before the engines' own, as in the settings.
        tls: context of connections to `https` endpoints; None trusts the system's authorities.
        server_name: name that their certificates must hold instead of the host's; None for the host's.
    """

    metrics_path: str = _DEFAULT_PATH
    api_key: str | None = None
    timeout_s: float = 5.0
    probe: bool = False
    names: CoreNames = field(default_factory=CoreNames)
    tls: ssl.SSLContext | None = None
    server_name: str | None = None


async def observe_endpoints(
    specs: Sequence[EndpointSpec], options: ObserveOptions, on_slow: Callable[[Sequence[str]], None]
) -> tuple[Observation, ...]:
    """Ask all endpoints over connections of their own; see `observe_all`."""
    settings = UpstreamSettings(
        connect_timeout_s=options.timeout_s, ssl_context=options.tls, server_name=options.server_name
    )
    pool = UpstreamPool(settings)
    try:
        return await observe_all(specs, fetch_through(pool), options, SystemClock(), on_slow)
    finally:
        await pool.close()


async def observe_all(
    specs: Sequence[EndpointSpec],
    fetch: Fetch,
    options: ObserveOptions,
    clock: Clock,
    on_slow: Callable[[Sequence[str]], None],
    tell_every_s: float = _TELL_EVERY_S,
) -> tuple[Observation, ...]:
    """Ask all at once; the result is in the order of `specs`.

    While answers are missing, `on_slow` gets the addresses that are waited for every `tell_every_s` seconds.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(observe(spec, fetch, options, clock), name=spec.address) for spec in specs]
        pending = set(tasks)
        while pending:
            _, pending = await asyncio.wait(pending, timeout=tell_every_s)
            if pending:
                on_slow([task.get_name() for task in tasks if task in pending])
    return tuple(task.result() for task in tasks)


async def observe(spec: EndpointSpec, fetch: Fetch, options: ObserveOptions, clock: Clock) -> Observation:
    """Ask one endpoint. The page comes last: engines add metrics with their first request."""
    ask = _Asker(spec, fetch, options, clock)
    path = page_path(
        Endpoint(0, 0, spec), None if options.metrics_path == _DEFAULT_PATH else options.metrics_path
    )
    health = await ask.get("/health")
    if health.unreachable:
        return read_observation(spec, health=health, page=health, models_list=health, version_page=health)
    models_list, version_page = await asyncio.gather(ask.get("/v1/models"), ask.get("/version"))
    probe = await ask.complete(_first_base_model(models_list)) if options.probe else None
    return read_observation(
        spec,
        health=health,
        page=await ask.get(path),
        models_list=models_list,
        version_page=version_page,
        probe=probe,
        page_path=path,
        names=options.names,
    )


def _first_base_model(models_list: Answer) -> str | None:
    if not models_list.ok:
        return None
    try:
        models = read_models(models_list.body)
    except ScrapeError:
        return None
    return next((model.id for model in models if model.parent is None), None)


class _Asker:
    """Requests to one endpoint, whose failures are answers too."""

    def __init__(self, spec: EndpointSpec, fetch: Fetch, options: ObserveOptions, clock: Clock) -> None:
        self._origin = Origin(spec.scheme, spec.host, spec.port)
        self._fetch = fetch
        self._options = options
        self._clock = clock
        self._headers: Headers = probe_headers(b"*/*", options.api_key)

    async def get(self, path: str) -> Answer:
        return await self._ask(UpstreamRequest(b"GET", path.encode(), self._headers, b""))

    async def complete(self, model: str | None) -> Answer:
        """One token; without a model the engine takes its own."""
        fields = {"prompt": "Hello", "max_tokens": 1} | ({"model": model} if model else {})
        headers = [*self._headers, (b"content-type", b"application/json")]
        body = msgspec.json.encode(fields)
        return await self._ask(UpstreamRequest(b"POST", b"/v1/completions", headers, body))

    async def _ask(self, request: UpstreamRequest) -> Answer:
        began = self._clock.monotonic()
        try:
            response = await self._fetch(self._origin, request, self._options.timeout_s)
        except FetchError as error:
            failure = error.failure
            unreachable = failure.kind in _NO_CONNECTION
            return Answer(None, fault=failure.detail or failure.kind.value, unreachable=unreachable)
        took_s = self._clock.monotonic() - began
        return Answer(response.status, response.body, took_s=took_s, keep_alive_s=_keep_alive_s(response))


def _keep_alive_s(response: Response) -> float | None:
    for name, value in response.headers:
        told = _TIMEOUT.search(value) if name.lower() == b"keep-alive" else None
        if told is not None:
            return float(told[1])
    return None
