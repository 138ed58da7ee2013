"""The gRPC servers: external processing with health on one port, health alone on another."""

import asyncio
import contextlib
import errno
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from epp.gateway.certificates import KeyPair
from epp.gateway.events import Event
from epp.gateway.health import Health
from epp.gateway.messages import HEALTH_SERVICE, PICKER_SERVICE, messages
from epp.gateway.picked import PickedRequest, ProtocolFault, Surroundings
from epp.http.patience import patient_timeout

__all__ = ["GatewayServer", "Listeners"]

logger = logging.getLogger("epp.gateway")

_QUIET_S: Final = 0.5
_FRAMING_BYTES: Final = 1 << 20  # what a message has beside the body: its headers
_STREAMS: Final = 1 << 20  # one for each request that a gateway has open; its own limit comes first


@dataclass(frozen=True, slots=True)
class Listeners:
    """Where to listen: `host:port`; `health` None: nowhere but on the picker's port."""

    picker: str
    health: str | None = None


class GatewayServer:
    """Serves one gateway or many, on the running loop."""

    def __init__(
        self,
        around: Surroundings,
        listeners: Listeners,
        ready: Callable[[], bool],
        key_pair: KeyPair | None = None,
    ) -> None:
        """Without `key_pair` the picker's port speaks plain text, as the health port always does."""
        self._around = around
        self._listeners = listeners
        self._ready = ready
        self._tls = None if key_pair is None else _Tls(key_pair)
        self._health = Health(messages(), lambda: not self._draining and ready())
        self._draining = self._stopping = False
        self._conversations: set[asyncio.Task[Any]] = set()
        self._servers: list[grpc.aio.Server] = []
        self._served = 0
        self.port = 0
        self.health_port = 0

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: an address cannot be had; `filename` is the address.
        """
        try:
            self.port = await self._listen(self._listeners.picker, self._tls, self._picker_handlers())
            if self._listeners.health is not None:
                self.health_port = await self._listen(self._listeners.health, None, [self._health_handler()])
        except OSError:
            await self.stop(0.0)
            raise

    async def _listen(self, address: str, tls: "_Tls | None", handlers: list[Any]) -> int:
        server = grpc.aio.server(handlers=handlers, options=_options(self._around.limits.max_body_bytes))
        try:
            port = (
                server.add_insecure_port(address)
                if tls is None
                else server.add_secure_port(address, tls.credentials)
            )
        except RuntimeError:  # gRPC says in its log why
            reason = "the address is in use or is not this machine's"
            raise OSError(errno.EADDRINUSE, reason, address) from None
        await server.start()
        self._servers.append(server)
        return int(port)

    async def use_key_pair(self, pair: KeyPair) -> None:
        """Show another certificate to connections that come from here on."""
        if self._tls is not None:
            self._tls.pair = pair

    def begin_drain(self) -> None:
        """Say that no requests should be sent here; those that come are served."""
        self._draining = True

    async def drain(self, timeout_s: float) -> None:
        """Serve until the gateways have turned away: nothing comes for a while, and nothing is open."""
        self.begin_drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not await self._is_quiet():
                    pass

    async def _is_quiet(self) -> bool:
        before = self._served
        await asyncio.sleep(_QUIET_S)
        return before == self._served and not self._conversations

    async def stop(self, grace_s: float) -> None:
        """Take no more, let what is under way end within `grace_s` seconds, then cut it."""
        self._draining = self._stopping = True
        await asyncio.gather(*(server.stop(grace_s) for server in self._servers))
        if self._conversations:
            await asyncio.wait(self._conversations)
        self._servers.clear()

    # Handlers.

    def _picker_handlers(self) -> list[Any]:
        # A method with one answer, as far as gRPC knows: so the last message leaves together with the end of
        # the stream. Those before it are written to the context; the wire is that of a stream of answers.
        process = grpc.stream_unary_rpc_method_handler(
            self._process, request_deserializer=self._around.codec.decode, response_serializer=None
        )
        handler = grpc.method_handlers_generic_handler(PICKER_SERVICE, {"Process": process})
        return [handler, self._health_handler()]

    def _health_handler(self) -> Any:
        check = grpc.unary_unary_rpc_method_handler(self._check)
        return grpc.method_handlers_generic_handler(HEALTH_SERVICE, {"Check": check})

    async def _check(self, request: bytes, context: Any) -> bytes:
        service = self._health.service_of(request)
        if service is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a HealthCheckRequest")
        answer = self._health.check(service or "")
        if answer is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return answer or b""

    async def _process(self, _requests: Any, context: Any) -> bytes:
        """One stream, and its last message. It ends with OK as soon as nothing more is wanted of it: the
        gateway then goes on by itself, and no restart of ours reaches what it relays.
        """
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("gRPC runs handlers in tasks")
        self._conversations.add(task)
        self._served += 1
        request = PickedRequest(self._around)
        try:
            last = await self._converse(request, context)
        except ProtocolFault as fault:
            logger.warning("a gateway broke the protocol: %s", fault)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(fault))
        finally:
            self._conversations.discard(task)
            request.close(shutdown=self._stopping)
        return last

    async def _converse(self, request: PickedRequest, context: Any) -> bytes:
        """The last message; those before it are sent.

        A gateway that has ended its side, or that only observes, gets an empty one, which it does not read.
        """
        deadline = asyncio.get_running_loop().time() + self._around.limits.body_timeout_s
        while True:
            event = await _next(request, context, deadline)
            if event is grpc.aio.EOF:
                return b""
            message = await _send_all_but_last(request, event, context)
            if request.over:
                return message or b""
            if message is not None:
                await context.write(message)


async def _next(request: PickedRequest, context: Any, deadline: float) -> Any:
    """An event, EOF, or None where the request does not come in time.

    Only waiting is bounded: a write that is cut in its middle would spoil the stream.
    """
    if not request.waits_for_request:
        return await context.read()
    try:
        async with patient_timeout(deadline - asyncio.get_running_loop().time()):
            return await context.read()
    except TimeoutError:
        return None


async def _send_all_but_last(request: PickedRequest, event: Event | None, context: Any) -> bytes | None:
    """What `event` (None: time is over) leads to; its last message is handed back unsent."""
    last: bytes | None = None
    for message in request.time_out() if event is None else request.receive(event):
        if message is None:
            await asyncio.sleep(0)
            continue
        if last is not None:
            await context.write(last)
        last = message
    return last


class _Tls:
    """Credentials that take another certificate while the port is open; ALPN `h2` is gRPC's own."""

    def __init__(self, pair: KeyPair) -> None:
        self._lock = threading.Lock()
        self._shown: KeyPair | None = pair
        self.pair = pair
        self.credentials: Final = grpc.dynamic_ssl_server_credentials(_configuration(pair), self._fetch)

    def _fetch(self) -> Any:
        """Asked at each handshake, in a thread of gRPC's; None: as before."""
        with self._lock:
            if self.pair is self._shown:
                return None
            self._shown = self.pair
            return _configuration(self.pair)


def _configuration(pair: KeyPair) -> Any:
    return grpc.ssl_server_certificate_configuration([(pair.key, pair.certificates)])


def _options(max_body_bytes: int) -> list[tuple[str, int]]:
    largest = min(max_body_bytes + _FRAMING_BYTES, 2**31 - 1)
    return [
        ("grpc.max_receive_message_length", largest),
        ("grpc.max_send_message_length", largest),
        ("grpc.max_concurrent_streams", _STREAMS),
        # A burst of new streams waits for its turn; by default gRPC cancels some of more than 1,000.
        ("grpc.server.max_pending_requests", _STREAMS),
        ("grpc.server.max_pending_requests_hard_limit", _STREAMS),
        ("grpc.so_reuseport", 0),  # two processes on one port would each see half
        # Gateways may ask for signs of life as often as they like; we ask after dead ones every minute.
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    ]
