"""The three callables of ASGI, and the extension by which an answer is cut."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

__all__ = ["ABORT_EXTENSION", "Headers", "Receive", "Scope", "Send"]

Headers = list[tuple[bytes, bytes]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# Its value holds "abort", a callable that cuts the connection in the middle of an answer, so that the client
# can tell that it is not complete, and "when_gone", which takes a callable for when the client has left while
# nobody receives what it sends.
ABORT_EXTENSION: Final = "epp.abort"
