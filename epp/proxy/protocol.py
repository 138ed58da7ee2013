"""A client's connection: uvicorn's httptools protocol with limits, our errors and careful closing."""

import asyncio
import enum
from collections.abc import Callable
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from epp.errors import BadRequestError, EppError, HeadTooLargeError, RequestTimeoutError
from epp.http.patience import PatientTimer
from epp.proxy.asgi import ABORT_EXTENSION, Headers
from epp.proxy.cycle import Cycle
from epp.proxy.errors import error_in_callback, render_error
from epp.proxy.front_state import FrontState
from epp.proxy.head_rules import check_head, size_of_field, size_of_head, target_of, without_upgrade
from epp.proxy.heads import request_id_of
from epp.proxy.transport import ClientTransport
from epp.proxy.upgrade import UPGRADE_EXTENSION, WebSocketOffer, offers_websocket

__all__ = ["HttpProtocol", "Phase"]

_HELD_LIMIT: Final = 65_536
_PIPELINE_LIMIT: Final = 32


class Phase(enum.Enum):
    """What is expected from the client."""

    IDLE = enum.auto()  # the first byte of a request
    HEAD = enum.auto()
    BODY = enum.auto()


class HttpProtocol(HttpToolsProtocol):
    """One connection.

    Bytes that come while an earlier request is being served are held back unparsed, and the socket is read on
    up to a limit: so a client that leaves is noticed at once, and pipelined requests are served one by one.
    """

    server_state: FrontState
    transport: ClientTransport
    cycle: Cycle

    def __init__(
        self,
        config: Config,
        server_state: FrontState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._settings = server_state.settings
        self._phase = Phase.IDLE
        self._room = 0  # for fields of the head that is being parsed
        self._field_count = self._head_bytes = 0  # of the last complete head, and trailer fields since
        self._unseen_bytes = 0  # fed to the parser since a head or a request was complete
        self._serving: Cycle | None = None
        self._held = bytearray()
        self._offered = False  # the request whose head is being parsed offers WebSocket
        self._on_data: Callable[[bytes], None] | None = None  # takes what comes on a WebSocket
        self._refusal: EppError | None = None
        self._timer: PatientTimer | None = None
        self._timed_phase = Phase.IDLE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        super().connection_made(
            ClientTransport(
                transport,
                self.loop,
                linger_s=self._settings.linger_timeout_s,
                flush_s=self._settings.client_stall_timeout_s,
                input_unfinished=self._input_unfinished,
            )
        )
        if self.server_state.closed:
            self.transport.close()
            return
        first_request_s = max(self._settings.keep_alive_s, self._settings.head_timeout_s)
        self.timeout_keep_alive_task = self.loop.call_later(first_request_s, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left, or the connection was closed."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._cancel_timer()
        self.transport.closed()
        self._phase = Phase.IDLE
        if self._serving is not None:
            self._serving.disconnect()
            self._serving = None
        self.server_state.changed.set()

    @property
    def busy(self) -> bool:
        """A request is being received or served: closing would cut it."""
        return self._phase is not Phase.IDLE or self.in_service()

    def in_service(self) -> bool:
        """A request is not answered yet."""
        serving = self._serving
        return serving is not None and not serving.response_complete and not serving.disconnected

    def shutdown(self) -> None:
        """Close an idle connection; let a busy one end with its answer."""
        if not self.busy:
            self.transport.close()
        elif self.cycle is not None:
            self.cycle.keep_alive = False

    def abort_answer(self) -> None:
        """Cut the answer in service; the abort extension of ASGI."""
        if self._serving is not None:
            self._serving.abort()

    def _input_unfinished(self) -> bool:
        return self._phase is not Phase.IDLE or self._refusal is not None

    def data_received(self, data: bytes) -> None:
        """Bytes came from the client."""
        if self._refusal is not None or self.transport.is_closing():
            return
        if self._on_data is not None:
            self._on_data(data)
        elif self._serving is not None and self._must_hold():
            self._hold(data)
        else:
            self._feed(data)

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > _HELD_LIMIT:
            self.flow.pause_reading()

    def _must_hold(self) -> bool:
        receives_its_body = self._phase is Phase.BODY and self.cycle is self._serving
        return self.in_service() and not receives_its_body

    def _feed(self, data: bytes) -> None:
        self._unseen_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError as exc:
            self._refuse(error_in_callback(exc))
            return
        except httptools.HttpParserError as exc:
            self._refuse(BadRequestError(f"malformed HTTP: {exc}"))
            return
        else:
            self._bound_receiving()
            return
        # Not while the exception is handled: it would take the place of what is raised by what follows.
        self._on_upgrade(rest)

    def _on_upgrade(self, rest: bytes) -> None:
        """Parse a request again without its offer to change the protocol.

        The parser takes what follows such a head for the other protocol, so the head must not show the offer.
        One of WebSocket is given to the application, and what follows waits for what it makes of it. Any
        other is declined, and what follows is the body: Java's client offers HTTP/2 with its first request.
        """
        self._offered = offers_websocket(
            self.parser.get_method(), self.parser.get_http_version(), self.headers
        )
        line = b"%b %b HTTP/%b" % (
            self.parser.get_method(),
            self.url,
            self.parser.get_http_version().encode("ascii"),
        )
        head = without_upgrade(line, self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        if self._offered:
            self._feed(head)
            self._hold(rest)
        else:
            self._feed(head + rest)

    def switch_protocol(self, headers: Headers, on_data: Callable[[bytes], None]) -> None:
        """Accept the WebSocket that the request in service offers; see `Switching`."""
        self.cycle.response_started = True
        lines = [b"HTTP/1.1 101 Switching Protocols"]
        lines += [b"%b: %b" % header for header in (*self.server_state.default_headers, *headers)]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n")
        held = bytes(self._held)
        self._held.clear()
        self.flow.resume_reading()
        self._on_data = on_data
        if held:
            on_data(held)

    def end_answer(self) -> None:
        """Close the connection after what was sent on a WebSocket."""
        self.cycle.response_complete = True
        self.transport.close()
        self.server_state.changed.set()

    def _bound_receiving(self) -> None:
        """Limit the size and the time of what is only partly here."""
        phase = self._phase
        # A head is measured when it is complete, an empty line in front of a request never.
        if self._unseen_bytes > self._settings.max_head_bytes and phase is not Phase.BODY:
            self._refuse(self._head_too_large())
        elif phase is Phase.IDLE or self._must_hold():
            self._cancel_timer()
        elif self._timer is None or self._timed_phase is not phase:
            self._arm_timer()

    def _arm_timer(self) -> None:
        self._cancel_timer()
        self._timed_phase = self._phase
        limit_s = self._settings.head_timeout_s if self._phase is Phase.HEAD else self.body_limit_s()
        self._timer = PatientTimer(self.loop, limit_s, self._on_receive_timeout)

    def body_limit_s(self) -> float:
        """How long a body may take; applications have their own limit and answer first."""
        return self._settings.head_timeout_s + self._settings.body_timeout_s

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_receive_timeout(self) -> None:
        part = "head" if self._phase is Phase.HEAD else "body"
        self._refuse(RequestTimeoutError(f"the {part} of the request did not arrive in time"))

    def _head_too_large(self) -> HeadTooLargeError:
        return HeadTooLargeError(f"the request head is larger than {self._settings.max_head_bytes} bytes")

    def _refuse(self, error: EppError) -> None:
        """Read no more, and answer with `error` after what is in service."""
        self._refusal = error
        self._cancel_timer()
        self._unset_keepalive_if_required()
        self._held.clear()
        if self._phase is Phase.BODY:
            if self.cycle is self._serving:
                self._break_off(self.cycle, error)
                return
            self.pipeline.popleft()  # the request whose body is broken; the application has not seen it
        if not self.in_service():
            self._send_error(error)

    def _break_off(self, cycle: Cycle, error: EppError) -> None:
        """The request in service will never be complete."""
        if cycle.response_complete:
            self.transport.close()
        elif cycle.response_started:
            cycle.abort()
        else:
            cycle.disconnect()
            self._send_error(error)

    def _send_error(self, error: EppError) -> None:
        headers = self.headers if self._phase is not Phase.IDLE else []
        request_id = request_id_of(headers, self.server_state.new_request_id)
        response = render_error(error, request_id, close=True)
        self.transport.write(response.as_http11(self.server_state.default_headers))
        self.transport.close()

    def on_message_begin(self) -> None:
        """Parser callback: the first byte of a request."""
        self._unset_keepalive_if_required()
        self._phase = Phase.HEAD
        self._room = self._settings.max_headers
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser callback: a header field, or a trailer field, which is counted and dropped."""
        headers = self.headers
        if len(headers) < self._room:
            headers.append((name.lower(), value))
        else:
            self._on_field_beyond(name, value)

    def _on_field_beyond(self, name: bytes, value: bytes) -> None:
        """Count a trailer field; one more of a full head is refused."""
        settings = self._settings
        self._field_count += 1
        if self._phase is Phase.HEAD or self._field_count > settings.max_headers:
            raise HeadTooLargeError(f"the request has more than {settings.max_headers} header fields")
        self._head_bytes += size_of_field(name, value)
        if self._head_bytes > settings.max_head_bytes:
            raise self._head_too_large()

    def on_headers_complete(self) -> None:
        """Parser callback: the head is complete."""
        headers = self.headers
        self._head_bytes = size_of_head(self.url, headers)
        if self._head_bytes > self._settings.max_head_bytes:
            raise self._head_too_large()
        parser = self.parser
        method, version = parser.get_method(), parser.get_http_version()
        fields = check_head(method, self.url, version, headers)
        self.expect_100_continue = fields.get(b"expect", b"").lower() == b"100-continue"
        if parser.should_upgrade():
            return
        if len(self.pipeline) >= _PIPELINE_LIMIT:
            raise BadRequestError(f"more than {_PIPELINE_LIMIT} requests are waiting on this connection")
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        self._fill_scope(method, version)
        self.start_request(version)
        self._phase = Phase.BODY
        self._field_count = len(headers)
        self._room = self._unseen_bytes = 0

    def start_request(self, version: str) -> None:
        """Serve the request whose head is complete through ASGI, or queue it behind those before it.

        This is where a lane that relays without ASGI attaches: it takes what it can and leaves the rest.
        """
        self.cycle = cycle = Cycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and version == "1.1",
            keep_alive=version == "1.1"
            and self.parser.should_keep_alive()
            and not self.server_state.draining,
            on_response=self.on_response_complete,
        )
        extensions: dict[str, Any] = {
            ABORT_EXTENSION: {"abort": self.abort_answer, "when_gone": cycle.when_gone}
        }
        if self._offered:
            self._offered = False
            extensions[UPGRADE_EXTENSION] = WebSocketOffer(self)
        self.scope["extensions"] = extensions
        if self.in_service() or self.transport.is_closing():  # of a closing connection none is served
            self.pipeline.appendleft((cycle, self.app))
        else:
            self._start_asgi_task(cycle, self.app)

    def _fill_scope(self, method: bytes, version: str) -> None:
        path, raw_path, query = target_of(self.url)
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,  # type: ignore[typeddict-item]
            "root_path": self.root_path,
            "headers": self.headers,
            "state": self.app_state.copy(),
            "method": method.decode("ascii"),
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
        }

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._serving = cycle  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """Parser callback: the request is wholly here."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._phase = Phase.IDLE
        self._unseen_bytes = 0

    def on_response_complete(self) -> None:
        """An answer was written: go on with what was held back."""
        super().on_response_complete()
        self.server_state.changed.set()
        if self.transport.is_closing():
            return
        if self._refusal is not None:
            if not self.in_service():
                self._send_error(self._refusal)
        elif self._held and not self._must_hold():
            data = bytes(self._held)
            self._held.clear()
            self._feed(data)
        else:
            self._bound_receiving()
