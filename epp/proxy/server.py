"""Listening, draining, stopping: uvicorn's server with our protocol, without its signals and polling."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from uvicorn._types import ASGIApplication
from uvicorn.config import Config
from uvicorn.server import Server

from epp.http.headers import new_request_id
from epp.proxy.fast_protocol import FastLane, FastProtocol
from epp.proxy.front_state import FrontState
from epp.proxy.protocol import HttpProtocol
from epp.proxy.settings import ProxySettings

__all__ = ["EppServer", "bind_socket"]

_TICK_S: Final = 1.0
# The last part of a drain, kept for answering what is left and for delivering the answers.
_FINAL_S: Final = 1.0


def bind_socket(host: str, port: int) -> socket.socket:
    """A bound TCP socket, not yet listening; port 0 takes a free one, host "::" takes IPv4 too.

    Raises:
        OSError: the address is in use or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def _nothing() -> None:
    """The default of a hook."""


class _Listener(Server):
    """The sockets of one application; they speak TLS if there is a context for it."""

    server_state: FrontState

    def __init__(
        self, app: ASGIApplication, state: FrontState, tls: ssl.SSLContext | None, lane: FastLane | None
    ) -> None:
        config = Config(
            app,
            http=HttpProtocol,
            ws="none",
            loop="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("server", "epp")],
            timeout_keep_alive=state.settings.keep_alive_s,  # type: ignore[arg-type]
        )
        super().__init__(config)
        self.server_state = state
        config.load()
        self.lifespan = config.lifespan_class(config)
        self._tls = tls
        self._lane = lane
        self._sockets: list[socket.socket] = []
        self.servers: list[asyncio.Server] = []

    @property
    def connections(self) -> list[HttpProtocol]:
        """Those that are open; a copy, since closing changes the set."""
        return list(self.server_state.connections)  # type: ignore[arg-type]

    async def open(self, sockets: Sequence[socket.socket]) -> None:
        """Listen on bound sockets."""
        self._sockets = list(sockets)
        await self.refresh_date()
        self.servers = await self._listen(self._tls)

    async def use_tls(self, tls: ssl.SSLContext) -> None:
        """Shake hands with `tls` from here on; handshakes that have begun and connections go on.

        The sockets stay open all the time, so that no connection is refused. A context of its own for each
        set of certificates keeps clients from resuming sessions that an older set allowed.
        """
        if self.server_state.closed:
            return
        servers = await self._listen(tls)
        outdated, self.servers = self.servers, servers
        for server in [*outdated, *servers] if self.server_state.closed else outdated:
            server.close()

    async def _listen(self, tls: ssl.SSLContext | None) -> list[asyncio.Server]:
        """Accept connections from a copy of each socket, which ends without ending the socket."""
        settings = self.server_state.settings
        return [
            await asyncio.get_running_loop().create_server(
                self._connection,
                sock=bound.dup(),
                ssl=tls,
                backlog=self.config.backlog,
                ssl_handshake_timeout=settings.head_timeout_s if tls else None,
                ssl_shutdown_timeout=settings.linger_timeout_s if tls else None,
            )
            for bound in self._sockets
        ]

    def _connection(self) -> HttpProtocol:
        if self._lane is None:
            return HttpProtocol(self.config, self.server_state, {})
        return FastProtocol(self.config, self.server_state, {}, self._lane)

    async def refresh_date(self) -> None:
        """Set the Date header of answers."""
        await self.on_tick(0)

    def drop_departed(self) -> None:
        """Notice clients that left while nothing is read from them, since nobody takes what they send."""
        for connection in self.connections:
            if connection.flow.read_paused and connection.transport.peer_left():
                connection.transport.abort()

    def begin_drain(self) -> None:
        """Let each busy connection end with its answer; idle ones stay open for one more request."""
        self.server_state.draining = True
        for connection in self.connections:
            if connection.busy:
                connection.shutdown()

    def close(self) -> None:
        """Stop listening and close the connections that are idle."""
        self.server_state.closed = True
        for server in self.servers:
            server.close()
        for bound in self._sockets:
            bound.close()
        for connection in self.connections:
            connection.shutdown()

    def abort(self) -> list[asyncio.Task[None]]:
        """Cut every connection and cancel what serves them; returns what was cancelled."""
        for connection in self.connections:
            connection.transport.abort()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        return tasks


class EppServer:
    """Serves applications on sockets until it is drained or stopped.

    A drain begins with `begin_drain`: `draining` is true at once (readiness fails), requests are served as
    long as any is in flight, and each answer closes its connection. `serve` returns when none is in flight.
    Shortly before `drain_timeout_s` is over, `on_drain_timeout` is called: whoever serves answers or cuts
    what is left. Signals belong to the caller:
    `loop.add_signal_handler(signal.SIGTERM, server.begin_drain)`.
    """

    def __init__(
        self,
        app: ASGIApplication,
        settings: ProxySettings,
        *,
        admin_app: ASGIApplication | None = None,
        tls: ssl.SSLContext | None = None,
        admin_tls: ssl.SSLContext | None = None,
        lane: FastLane | None = None,
        new_request_id: Callable[[], bytes] = new_request_id,
        on_drain: Callable[[], None] = _nothing,
        on_drain_timeout: Callable[[], None] = _nothing,
    ) -> None:
        """`lane` relays what it takes on the main listener without `app`."""
        self._settings = settings
        self._changed = asyncio.Event()  # a connection became idle or went away, or a drain began
        apps = [(app, tls, lane)] if admin_app is None else [(app, tls, lane), (admin_app, admin_tls, None)]
        self._listeners = [
            _Listener(served, FrontState(settings, new_request_id, self._changed), context, fast)
            for served, context, fast in apps
        ]
        self._lanes = [lane] if lane is not None else []
        self._on_drain = on_drain
        self._on_drain_timeout = on_drain_timeout
        self._stopping = False
        self.draining = False
        self.started = asyncio.Event()

    async def serve(
        self, sockets: Sequence[socket.socket], admin_sockets: Sequence[socket.socket] = ()
    ) -> None:
        """Listen on bound sockets until a drain has ended or `stop` was called.

        The sockets are closed then, and also when this is cancelled or raises.
        """
        ticks = asyncio.create_task(self._tick())
        try:
            for listener, bound in zip(self._listeners, (sockets, admin_sockets), strict=False):
                await listener.open(bound)
            self.started.set()
            while not self.draining:
                await self._next_change()
            await self._drain()
        finally:
            ticks.cancel()
            await self._abort()
            for lane in self._lanes:
                lane.finish()

    async def use_tls(self, tls: ssl.SSLContext) -> None:
        """Use another certificate on the main listener, which speaks TLS already."""
        await self._listeners[0].use_tls(tls)

    async def use_admin_tls(self, tls: ssl.SSLContext) -> None:
        """Use another certificate on the admin listener, which speaks TLS already."""
        await self._listeners[1].use_tls(tls)

    def begin_drain(self) -> None:
        """Fail readiness and end when nothing is in flight, at the latest after `drain_timeout_s`."""
        if self.draining:
            return
        self.draining = True
        for listener in self._listeners:
            listener.begin_drain()
        self._on_drain()
        self._changed.set()

    def stop(self) -> None:
        """End at once: what is in flight is answered or cut as at the end of a drain."""
        self._stopping = True
        self.begin_drain()
        self._changed.set()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            for listener in self._listeners:
                await listener.refresh_date()
                listener.drop_departed()

    async def _drain(self) -> None:
        time = asyncio.get_running_loop().time
        deadline = time() + self._settings.drain_timeout_s
        final_s = min(_FINAL_S, self._settings.drain_timeout_s / 2)
        await self._wait_while(self._in_flight, deadline - final_s)
        if self._busy():
            self._on_drain_timeout()
            await self._wait_while(self._busy, time() + final_s / 2)
        for listener in self._listeners:
            listener.close()
        await self._wait_while(self._connected, time() + final_s / 2 if self._stopping else deadline)

    async def _abort(self) -> None:
        for listener in self._listeners:
            listener.close()
        tasks = [task for listener in self._listeners for task in listener.abort()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _busy(self) -> bool:
        return any(connection.busy for listener in self._listeners for connection in listener.connections)

    def _in_flight(self) -> bool:
        return self._busy() and not self._stopping

    def _connected(self) -> bool:
        return any(listener.connections for listener in self._listeners)

    async def _wait_while(self, condition: Callable[[], bool], deadline: float) -> None:
        """Wait until `condition` no longer holds, or the loop's time is `deadline`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while condition():
                    await self._next_change()

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
