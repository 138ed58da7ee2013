"""Connections by origin, and who may use them."""

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from epp.http.connection import Connection, Exchange
from epp.http.patience import patient_timeout
from epp.http.request import encode_head
from epp.http.tls import EndpointTls, endpoint_context
from epp.http.types import (
    ErrorKind,
    Origin,
    ResponseSink,
    UpstreamExchange,
    UpstreamFailure,
    UpstreamRequest,
    UpstreamSettings,
)

__all__ = ["Dial", "PoolStats", "UpstreamPool"]

Dial = Callable[[Callable[[], Connection], Origin, ssl.SSLContext | None], Awaitable[object]]

_CLOSED_AT_ONCE = 50

# The machine is out of something: no fault of the endpoint.
_LOCAL_ERRNOS = frozenset((errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM))


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Connections at one moment, and totals since the pool was made."""

    idle: int
    active: int
    opened_total: int
    reused_total: int


@dataclass(slots=True)
class _Host:
    """One origin's connections; `idle` is in order of release, the oldest first."""

    authority: bytes
    connections: set[Connection] = field(default_factory=set)
    idle: dict[Connection, None] = field(default_factory=dict)


class UpstreamPool:
    """Keep-alive connections to all endpoints.

    It goes straight to the address: proxies named by environment variables are never used. The most recently
    used idle connection is taken first, so that surplus ones expire. Needs a running event loop (or `loop`)
    and lives on it alone. `dial` makes a connection; the default is the loop's own way.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        loop: asyncio.AbstractEventLoop | None = None,
        dial: Dial | None = None,
    ) -> None:
        self._settings = settings
        self._loop = loop or asyncio.get_running_loop()
        self._dial = dial or partial(_dial, self._loop, settings.server_name)
        self._hosts: dict[Origin, _Host] = {}
        self._tls_context = settings.ssl_context
        self._outdated: set[Connection] = set()  # not to be used again
        self._sweeper: asyncio.TimerHandle | None = None
        self._opened = 0
        self._reused = 0
        self._closed = False
        self._all_closed = asyncio.Event()

    def send(
        self, origin: Origin, request: UpstreamRequest, sink: ResponseSink, *, fresh: bool = False
    ) -> UpstreamExchange:
        """Start an exchange on an idle connection or a new one; `fresh` uses no idle one.

        Returns at once; the sink is not called before. Failures come through the sink.

        Raises:
            ValueError: the request cannot be framed (a line break in a header).
        """
        host = self._hosts.get(origin) or _Host(origin.authority)
        head = encode_head(request, host.authority)
        now = self._loop.time()
        connection = None if fresh else self._take_idle(host, now)
        exchange = Exchange(sink, now, connection is not None)
        if connection is None:
            refusal = self._refusal(host)
            if refusal:
                self._loop.call_soon(_refuse, exchange, refusal)
                return exchange
            connection = self._open(origin, host)
        connection.start(
            exchange, head, request.body, head_only=request.method == b"HEAD", upgrade=request.upgrade
        )
        return exchange

    def use_tls(self, context: ssl.SSLContext) -> None:
        """Send to `https` origins over connections made with `context` from here on.

        Exchanges that are under way end on the connections they have.
        """
        self._tls_context = context
        for origin, host in list(self._hosts.items()):
            if origin.scheme == "https":
                self._outdated |= host.connections - host.idle.keys()
                idle = list(host.idle)
                host.idle.clear()
                for connection in idle:
                    connection.abort()

    def stats(self) -> PoolStats:
        """Counts of this moment."""
        idle = sum(len(host.idle) for host in self._hosts.values())
        total = sum(len(host.connections) for host in self._hosts.values())
        return PoolStats(idle, total - idle, self._opened, self._reused)

    async def close(self) -> None:
        """Close every connection and refuse new exchanges; those under way fail with POOL_EXHAUSTED."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        connections = [c for host in self._hosts.values() for c in host.connections]
        connecting = [c.connecting for c in connections if c.connecting is not None]
        for connection in connections:
            connection.shut_down(ErrorKind.POOL_EXHAUSTED, "the pool is closed")
        await asyncio.gather(*connecting, return_exceptions=True)
        if self._hosts:
            await self._all_closed.wait()

    # What connections tell.

    def on_idle(self, connection: Connection) -> None:
        """Keep it for the next request, unless keeping is off or it is outdated."""
        keep_s = self._settings.keep_alive_s
        if keep_s <= 0 or connection in self._outdated:
            connection.abort()
            return
        self._hosts[connection.origin].idle[connection] = None
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(keep_s / 2, self._sweep)

    def on_closed(self, connection: Connection) -> None:
        """Forget it."""
        self._outdated.discard(connection)
        host = self._hosts[connection.origin]
        host.idle.pop(connection, None)
        host.connections.discard(connection)
        if not host.connections:
            del self._hosts[connection.origin]
        if self._closed and not self._hosts:
            self._all_closed.set()

    # Reusing and opening.

    def _take_idle(self, host: _Host, now: float) -> Connection | None:
        """The idle connection used last, if it is not too old to be trusted: then all others are, too."""
        idle = host.idle
        while idle:
            connection, _ = idle.popitem()
            is_young = now - connection.progress_at < self._settings.keep_alive_s
            if is_young and connection.is_open():
                self._reused += 1
                return connection
            connection.abort()
            if not is_young:  # a thousand others are closed by and by: see `_sweep`
                return None
        return None

    def _refusal(self, host: _Host) -> str:
        limit = self._settings.max_connections_per_origin
        if self._closed:
            return "the pool is closed"
        if limit and len(host.connections) >= limit:
            return f"{limit} connections to this endpoint are in use"
        return ""

    def _open(self, origin: Origin, host: _Host) -> Connection:
        connection = Connection(self, origin, self._settings, self._loop)
        self._hosts[origin] = host
        host.connections.add(connection)
        self._opened += 1
        connection.connecting = self._loop.create_task(self._connect(connection))
        return connection

    async def _connect(self, connection: Connection) -> None:
        timeout_s = self._settings.connect_timeout_s
        try:
            async with patient_timeout(timeout_s or None):
                await self._dial(lambda: connection, connection.origin, self._tls(connection.origin))
        except TimeoutError:
            connection.connect_failed(ErrorKind.CONNECT_TIMEOUT, f"not connected within {timeout_s:g} s")
        except OSError as error:
            kind = ErrorKind.POOL_EXHAUSTED if error.errno in _LOCAL_ERRNOS else ErrorKind.CONNECT
            connection.connect_failed(kind, str(error))
        except Exception as error:  # noqa: BLE001  whatever it is, the exchange must not wait for ever
            connection.connect_failed(ErrorKind.CONNECT, repr(error))
        finally:
            connection.connecting = None

    def _tls(self, origin: Origin) -> ssl.SSLContext | None:
        if origin.scheme != "https":
            return None
        if self._tls_context is None:
            self._tls_context = endpoint_context(EndpointTls())
        return self._tls_context

    def _sweep(self) -> None:
        """Close what has been idle for too long, twice a keep-alive time as long as anything is idle.

        Of many, some in each turn of the loop: to close one takes 15 µs.
        """
        self._sweeper = None
        horizon = self._loop.time() - self._settings.keep_alive_s
        expired = [c for host in self._hosts.values() for c in host.idle if c.progress_at <= horizon]
        for connection in expired[:_CLOSED_AT_ONCE]:
            del self._hosts[connection.origin].idle[connection]
            connection.abort()
        if any(host.idle for host in self._hosts.values()):
            more = len(expired) > _CLOSED_AT_ONCE
            wait_s = 0.0 if more else self._settings.keep_alive_s / 2
            self._sweeper = self._loop.call_later(wait_s, self._sweep)


def _refuse(exchange: Exchange, detail: str) -> None:
    if not exchange.aborted:
        exchange.sink.on_failure(UpstreamFailure(ErrorKind.POOL_EXHAUSTED, detail, written=False))


async def _dial(
    loop: asyncio.AbstractEventLoop,
    server_name: str | None,
    protocol: Callable[[], Connection],
    origin: Origin,
    tls: ssl.SSLContext | None,
) -> object:
    return await loop.create_connection(
        protocol,
        origin.host,
        origin.port,
        ssl=tls,
        server_hostname=(server_name or origin.host) if tls else None,
    )
