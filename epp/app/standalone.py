"""`epp gateway`: a runtime whose requests a real Envoy relays."""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import uvloop
from uvicorn._types import ASGIApplication

from epp.app.collector import calm_collector
from epp.app.gateway import closed_through_gateway, remembered
from epp.app.guards import ADMIN_TLS, LISTENER_TLS
from epp.app.lanes import POOL_PATHS, Lane, lane_of
from epp.app.runtime import Runtime
from epp.app.server import Started, listening, url_of
from epp.config import EffectiveConfig, Settings
from epp.errors import ConfigError, ConfigProblem
from epp.gateway.standalone.bootstrap import BootstrapOptions, bootstrap
from epp.gateway.standalone.check_protocol import CheckProtocol
from epp.gateway.standalone.checks import Checks, CheckSurroundings
from epp.gateway.standalone.process import EnvoyError, EnvoyProcess, find_envoy
from epp.http import new_request_id
from epp.proxy import EppServer

__all__ = [
    "DEFAULT_ADMIN_PORT", "EnvoyError", "StandaloneOptions", "check_settings", "find_envoy",
    "serve_standalone", "serve_standalone_async",
]  # fmt: skip

logger = logging.getLogger("epp.gateway")

DEFAULT_ADMIN_PORT: Final = 9090
_BACKLOG: Final = 4096  # Envoy opens a connection for each question that waits
_TICK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class StandaloneOptions:
    """The program, and how many threads of it relay."""

    program: str
    concurrency: int


def check_settings(settings: Settings) -> None:
    """Refuse what this mode cannot do.

    Raises:
        ConfigError: naming each.
    """
    problems = [
        ConfigProblem("endpoint", f"{spec.url} is not http://IP:port", "use `epp serve`, or --discovery-dns")
        for spec in settings.endpoint
        if spec.scheme != "http" or not _is_ip(spec.host)
    ]
    if settings.tls.client_ca is not None:
        problems.append(ConfigProblem("tls.clientCa", "is not asked for by `epp gateway`", "use `epp serve`"))
    if settings.cors.allowed_origins:
        message = "is not told to browsers by `epp gateway`"
        problems.append(ConfigProblem("cors.allowedOrigins", message, "use `epp serve`"))
    if settings.model_rewrite:
        message = "needs bodies that can be changed, which `epp gateway` cannot"
        problems.append(ConfigProblem("modelRewrite", message, "use `epp serve`"))
    if problems:
        raise ConfigError(problems, "settings")


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def serve_standalone(
    settings: Settings,
    config: EffectiveConfig,
    options: StandaloneOptions,
    on_started: Callable[[Started], None] | None = None,
    *,
    shadow: EffectiveConfig | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT has been followed by a drain.

    Raises:
        EnvoyError: Envoy did not start, or ended by itself.
        OSError: the admin port cannot be listened on.
        ConfigError: a file that the settings name cannot be opened.
    """
    uvloop.run(serve_standalone_async(settings, config, options, on_started, shadow=shadow))


async def serve_standalone_async(
    settings: Settings,
    config: EffectiveConfig,
    options: StandaloneOptions,
    on_started: Callable[[Started], None] | None,
    *,
    shadow: EffectiveConfig | None = None,
) -> None:
    """`serve_standalone` on the running loop."""
    settings = replace(settings, admin_port=settings.admin_port or DEFAULT_ADMIN_PORT)
    with (
        tempfile.TemporaryDirectory(prefix="epp-") as directory,
        listening(settings.host, settings.admin_port) as admin,
    ):
        runtime = Runtime(settings, config, shadow=shadow, rewrites_models=False)
        try:
            await runtime.start()
            await _Gateway(runtime, Path(directory), options).run(admin, on_started)
        finally:
            await runtime.stop()


class _Gateway:
    """The parts of one run."""

    def __init__(self, runtime: Runtime, directory: Path, options: StandaloneOptions) -> None:
        self._runtime = runtime
        self._directory = directory
        self._checks = Checks(_surroundings(runtime))
        self._envoy = EnvoyProcess(
            options.program, directory, concurrency=options.concurrency, on_lines=self._checks.ended
        )
        self._topology: object = None
        self._draining = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self, admin: socket.socket, on_started: Callable[[Started], None] | None) -> None:
        """Serve until a drain is over.

        Raises:
            EnvoyError.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGHUP, self._runtime.on_hangup)
        questions = await loop.create_unix_server(
            lambda: CheckProtocol(self._checks), str(self._directory / "check.sock"), backlog=_BACKLOG
        )
        control = _unix_socket(self._directory / "control.sock")
        server = self._server()
        self._runtime.files.on_change(ADMIN_TLS, server.use_admin_tls)
        self._runtime.files.on_change(LISTENER_TLS, self._tell_certificate)
        tasks = [asyncio.create_task(self._follow())]
        try:
            self._tell_endpoints()
            await self._tell_certificate()
            await self._envoy.start(bootstrap(_options(self._runtime.settings, str(self._directory))))
            # From here on the admin port answers: ready means that Envoy listens.
            tasks.append(asyncio.create_task(server.serve([control], [admin])))
            calm_collector()
            await self._announce(admin, on_started)
            await self._until_drained()
        finally:
            await self._envoy.stop()
            self._checks.shut_down()
            questions.close()
            control.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _server(self) -> EppServer:
        """Health, metrics and debugging on the admin port, the pool's own answers behind Envoy."""
        return EppServer(
            cast("ASGIApplication", self._runtime.app),
            self._runtime.proxy_settings,
            admin_app=cast("ASGIApplication", self._runtime.admin_app),
            admin_tls=self._runtime.guards.admin_tls,
        )

    async def _announce(self, admin: socket.socket, on_started: Callable[[Started], None] | None) -> None:
        settings = self._runtime.settings
        scheme = "http" if settings.tls.cert is None else "https"
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)
        url = f"{scheme}://{host}:{await self._envoy.port()}"
        admin_url = url_of(admin, self._runtime.guards.admin_tls)
        logger.info("listening", extra={"url": url, "admin_url": admin_url})
        if on_started is not None:
            on_started(Started(url, admin_url))

    async def _until_drained(self) -> None:
        """Wait for a signal, then for what is in flight.

        Raises:
            EnvoyError: Envoy ended before.
        """
        ended = asyncio.create_task(self._envoy.wait())
        asked = asyncio.create_task(self._draining.wait())
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if ended.done():
            raise EnvoyError(f"Envoy ended with status {ended.result()}")
        ended.cancel()
        self._runtime.begin_drain()
        draining = asyncio.create_task(self._envoy.drain(self._runtime.settings.drain_timeout_s))
        hurrying = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({draining, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        if not (draining.done() and draining.result()):
            self._checks.cut()
        for task in (draining, hurrying):
            task.cancel()

    def _on_signal(self) -> None:
        """The first signal drains, a second one stops."""
        (self._hurry if self._draining.is_set() else self._draining).set()

    async def _follow(self) -> None:
        """Tell Envoy of endpoints that come and go."""
        while True:
            with contextlib.suppress(OSError):  # the disk may be full for a while; the old file stays
                self._tell_endpoints()
            await asyncio.sleep(_TICK_S)

    async def _tell_certificate(self, _checked: object = None) -> None:
        """Tell Envoy the certificate for clients, which the runtime has found to be one."""
        tls = self._runtime.settings.tls
        if tls.cert is not None and tls.key is not None:
            key = await asyncio.to_thread(Path(tls.key).read_bytes)
            self._envoy.write_certificate(key, await asyncio.to_thread(Path(tls.cert).read_bytes))

    def _tell_endpoints(self) -> None:
        pool = self._runtime.core.table.pool
        known = [(e.address, e.draining) for e in pool.endpoints if _is_ip(e.spec.host)]
        if known != self._topology:
            self._envoy.write_endpoints(e for e in pool.endpoints if _is_ip(e.spec.host))
            self._topology = known


def _surroundings(runtime: Runtime) -> CheckSurroundings:
    return CheckSurroundings(
        director=runtime.core.director,
        now=runtime.clock.monotonic,
        new_request_id=new_request_id,
        closed=_closed(runtime.settings),
        least=runtime.settings.retry.max_executions,
        max_requests=runtime.settings.max_requests,
        gate=runtime.guards.gate,
        credentials=runtime.guards.credentials,
    )


def _closed(settings: Settings) -> Callable[[str], str]:
    through_gateway = closed_through_gateway(settings)

    def closed(path: str) -> str:
        if lane_of(path) is Lane.CONTROL:
            return "this route is served on the admin port"
        return through_gateway(path)

    return remembered(closed)


def _options(settings: Settings, directory: str) -> BootstrapOptions:
    upstream = settings.upstream
    return BootstrapOptions(
        host=settings.host,
        port=settings.port,
        directory=directory,
        max_body_bytes=settings.max_request_bytes,
        control_paths=sorted(POOL_PATHS),
        tls=settings.tls.cert is not None,
        min_tls=settings.tls.min_version,
        retries=settings.retry.max_executions - 1,
        expose_endpoint=settings.receipts.expose_endpoint,
        connect_timeout_s=upstream.connect_timeout_s,
        idle_timeout_s=max(upstream.first_byte_timeout_s, upstream.idle_timeout_s),
        keep_alive_s=upstream.keep_alive_s,
        total_timeout_s=upstream.total_timeout_s,
    )


def _unix_socket(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(path))
    bound.listen(_BACKLOG)
    return bound
