"""Closing a client's connection so that the client can read what was sent to it."""

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

from epp.http.patience import PatientTimer

__all__ = ["ClientTransport"]

_ESTABLISHED = b"\x01"  # the first byte of Linux's tcp_info: the state of the connection
_STATE_IS_TOLD = sys.platform == "linux"
_LINGER_OFF = struct.pack("ii", 1, 0)


class ClientTransport(asyncio.Transport):
    """A socket transport with a careful `close`.

    A socket that is closed with unread input makes the kernel reset the connection, and the peer may lose the
    answer it was about to read (RFC 9112 section 9.6). While `input_unfinished()` is true, `close` therefore
    ends the output only, and the input is thrown away until the client closes too, for at most `linger_s`.
    TLS has no half-closed connections: there the client learns from the answer itself that it is at its end.
    Output that is not delivered yet has `flush_s` to be taken.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        linger_s: float,
        flush_s: float,
        input_unfinished: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._linger_s = linger_s
        self._flush_s = flush_s
        self._input_unfinished = input_unfinished
        self._closing = False
        self._timer: PatientTimer | None = None
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        # Bound once: these are called for every chunk.
        self.write = transport.write  # type: ignore[method-assign]
        self.get_write_buffer_size = transport.get_write_buffer_size  # type: ignore[method-assign]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the transport has it."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Stop delivering input."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Deliver input again."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def peer_left(self) -> bool:
        """The client has closed or reset the connection, though its input is not read at this time.

        Linux tells it; elsewhere this is False, and it is noticed with the next byte that is read.
        """
        if self.is_closing() or not _STATE_IS_TOLD:
            return False
        raw: socket.socket = self._transport.get_extra_info("socket")
        return raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != _ESTABLISHED

    def is_closing(self) -> bool:
        """`close` or `abort` was called, or the connection is lost."""
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        """Deliver what was written, then close."""
        self._end(linger=self._input_unfinished())

    def cut(self) -> None:
        """The same in the middle of an answer, whose framing shows that it is not complete."""
        self._end(linger=self._input_unfinished() and not self._is_tls)

    def _end(self, *, linger: bool) -> None:
        if self.is_closing():
            return
        self._closing = True
        if linger:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()
        self._limit_closing()

    def reset(self) -> None:
        """Close with a reset: says "not complete" where the end of the connection is the end of the body."""
        if self._transport.is_closing():
            return
        raw: socket.socket = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)
        self._closing = True
        if self._is_tls:
            self._transport.abort()  # an orderly end of TLS would say "complete"
        else:
            self._transport.close()
        self._limit_closing()

    def _limit_closing(self) -> None:
        patience_s = self._flush_s if self.get_write_buffer_size() else self._linger_s
        self._timer = PatientTimer(self._loop, patience_s, self._transport.abort)

    def abort(self) -> None:
        """Close at once, whatever is left to send."""
        self._closing = True
        self._transport.abort()

    def closed(self) -> None:
        """The connection is lost; forget the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
