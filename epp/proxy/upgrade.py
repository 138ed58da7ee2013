"""A client's offer to speak WebSocket instead of HTTP (RFC 6455), and its connection once that was taken."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from uvicorn.protocols.http.flow_control import FlowControl

from epp.proxy.asgi import Headers

__all__ = ["UPGRADE_EXTENSION", "Switching", "WebSocketOffer", "offers_websocket"]

# Its value is a `WebSocketOffer`: an extension of ASGI for requests that may become a WebSocket.
UPGRADE_EXTENSION: Final = "epp.upgrade"


class Switching(Protocol):
    """The client's connection, as an offer needs it."""

    @property
    def transport(self) -> asyncio.Transport:
        """Where bytes for the client go."""
        ...

    @property
    def flow(self) -> FlowControl:
        """Back-pressure in both directions."""
        ...

    def switch_protocol(self, headers: Headers, on_data: Callable[[bytes], None]) -> None:
        """Send the head of a 101 and give everything that comes from here on to `on_data`."""
        ...

    def end_answer(self) -> None:
        """Close the connection after what was sent."""
        ...


class WebSocketOffer:
    """Given to the application with the request; taken at most once, and declined by any ordinary answer."""

    # What an upgrade needs in both heads, and is dropped from others (RFC 9110, section 7.8).
    headers: Final[Headers] = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]

    def __init__(self, connection: Switching) -> None:
        self._connection = connection

    def accept(self, headers: Headers, on_data: Callable[[bytes], None]) -> None:
        """Send the head of a 101 and give everything that comes from here on to `on_data`."""
        self._connection.switch_protocol(headers + self.headers, on_data)

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._connection.transport.write(data)

    async def drained(self) -> None:
        """Wait until the client has taken most of what was sent."""
        await self._connection.flow.drain()

    def pause(self) -> None:
        """Take nothing more from the client."""
        self._connection.flow.pause_reading()

    def resume(self) -> None:
        """Take more again."""
        self._connection.flow.resume_reading()

    def close(self) -> None:
        """Close the connection after what was sent."""
        self._connection.end_answer()


def offers_websocket(method: bytes, version: str, headers: Headers) -> bool:
    """Whether a head asks for WebSocket as it should: GET, HTTP/1.1 and no body (RFC 6455, section 4.1)."""
    names = {name for name, _ in headers}
    return (
        method == b"GET"
        and version == "1.1"
        and any(name == b"upgrade" and value.strip().lower() == b"websocket" for name, value in headers)
        and not names & {b"content-length", b"transfer-encoding"}
    )
