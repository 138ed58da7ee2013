"""A process that serves: sockets, signals, drain."""

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import uvloop
from uvicorn._types import ASGIApplication

from epp.app.collector import calm_collector
from epp.app.cors import ORIGIN
from epp.app.gateway import build_gateway
from epp.app.guards import ADMIN_TLS, LISTENER_TLS
from epp.app.open_files import raise_open_files_limit
from epp.app.runtime import Runtime
from epp.config import EffectiveConfig, Settings
from epp.proxy import EppServer, FastLane, bind_socket

if TYPE_CHECKING:
    from epp.gateway.server import GatewayServer

__all__ = ["Started", "listening", "serve", "serve_async", "url_of"]

logger = logging.getLogger("epp")

_BACKLOG: Final = 2048
_GRACE_S: Final = 1.0  # for what a gateway has open at the end of a drain


@dataclass(frozen=True, slots=True)
class Started:
    """What a caller may want to know when the listeners are open."""

    url: str
    admin_url: str | None
    grpc_port: int | None = None


def serve(
    settings: Settings,
    config: EffectiveConfig,
    on_started: Callable[[Started], None] | None = None,
    *,
    shadow: EffectiveConfig | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT has been followed by a drain.

    Raises:
        OSError: an address cannot be listened on; `filename` is the address where it is known.
        ConfigError: a file that the settings name cannot be opened.
    """
    raise_open_files_limit()
    uvloop.run(serve_async(settings, config, on_started, shadow=shadow))


async def serve_async(
    settings: Settings,
    config: EffectiveConfig,
    on_started: Callable[[Started], None] | None = None,
    *,
    shadow: EffectiveConfig | None = None,
) -> None:
    """`serve` on the running loop."""
    with listening(settings.host, settings.port) as main, _admin_socket(settings) as admin:
        runtime = Runtime(settings, config, shadow=shadow)
        gateway: GatewayServer | None = None
        hurry = asyncio.Event()
        try:
            gateway = build_gateway(runtime)
            await runtime.start()
            if gateway is not None:
                await gateway.start()
            await _run(runtime, settings, main, admin, on_started, gateway, hurry)
            if gateway is not None:
                await _drain(gateway, settings.drain_timeout_s, hurry)
        finally:
            if gateway is not None:
                await gateway.stop(_GRACE_S)
            await runtime.stop()


def listening(host: str, port: int) -> socket.socket:
    """A listening socket; the error of one that cannot be had names its address.

    Two sockets may be bound to one port until one of them listens, and what the event loop does when
    listening fails leaves a socket object with the descriptor of another.
    """
    try:
        bound = bind_socket(host, port)
        try:
            bound.listen(_BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return bound


def _admin_socket(settings: Settings) -> socket.socket:
    """The admin listener's socket; unbound when there is none."""
    return listening(settings.host, settings.admin_port) if settings.admin_port else socket.socket()


def _fast_lane(runtime: Runtime, settings: Settings) -> FastLane | None:
    """None where it is switched off. What pages of other origins ask goes through ASGI, if any may."""
    if settings.lane != "fast":
        return None
    return FastLane(runtime.relay, runtime.app.relays, ORIGIN if settings.cors.allowed_origins else None)


async def _run(
    runtime: Runtime,
    settings: Settings,
    main: socket.socket,
    admin: socket.socket,
    on_started: Callable[[Started], None] | None,
    gateway: "GatewayServer | None",
    hurry: asyncio.Event,
) -> None:
    """Serve until a drain is over; `hurry` is set when no more time is given."""
    server = EppServer(
        cast("ASGIApplication", runtime.app),
        runtime.proxy_settings,
        admin_app=cast("ASGIApplication", runtime.admin_app) if settings.admin_port else None,
        tls=runtime.guards.tls,
        admin_tls=runtime.guards.admin_tls,
        lane=_fast_lane(runtime, settings),
        on_drain=runtime.begin_drain,
        on_drain_timeout=runtime.relay.shut_down,
    )
    runtime.files.on_change(LISTENER_TLS, server.use_tls)
    runtime.files.on_change(ADMIN_TLS, server.use_admin_tls)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, server, hurry)
    loop.add_signal_handler(signal.SIGHUP, runtime.on_hangup)
    serving = asyncio.create_task(server.serve([main], [admin] if settings.admin_port else []))
    try:
        await _started(server, serving)
        _announce(runtime, settings, main, admin, on_started, gateway)
        await serving
    finally:
        serving.cancel()
        await asyncio.wait({serving})


def _announce(
    runtime: Runtime,
    settings: Settings,
    main: socket.socket,
    admin: socket.socket,
    on_started: Callable[[Started], None] | None,
    gateway: "GatewayServer | None",
) -> None:
    """The listeners are open."""
    calm_collector()
    started = Started(
        url_of(main, runtime.guards.tls),
        url_of(admin, runtime.guards.admin_tls) if settings.admin_port else None,
        gateway.port if gateway is not None else None,
    )
    told = {} if started.grpc_port is None else {"grpc_port": started.grpc_port}
    logger.info("listening", extra={"url": started.url, "admin_url": started.admin_url, **told})
    if on_started is not None:
        on_started(started)


async def _drain(gateway: "GatewayServer", timeout_s: float, hurry: asyncio.Event) -> None:
    """Let gateways turn away, until a second signal."""
    draining = asyncio.create_task(gateway.drain(timeout_s))
    hurrying = asyncio.create_task(hurry.wait())
    await asyncio.wait({draining, hurrying}, return_when=asyncio.FIRST_COMPLETED)
    for task in (draining, hurrying):
        task.cancel()


async def _started(server: EppServer, serving: asyncio.Task[None]) -> None:
    """Wait until the server listens.

    Raises:
        OSError: it cannot.
    """
    listening = asyncio.create_task(server.started.wait())
    await asyncio.wait({listening, serving}, return_when=asyncio.FIRST_COMPLETED)
    if not listening.done():
        listening.cancel()
        await serving


def _on_signal(server: EppServer, hurry: asyncio.Event) -> None:
    """The first signal drains, a second one stops."""
    if server.draining:
        hurry.set()
        server.stop()
    else:
        server.begin_drain()


def url_of(bound: socket.socket, tls: ssl.SSLContext | None) -> str:
    """Where a listening socket is reached from this machine."""
    host, port = bound.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{'https' if tls else 'http'}://{shown}:{port}"
