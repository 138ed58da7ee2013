"""Reading a request's body under limits."""

from epp.errors import ClientDisconnectedError, PayloadTooLargeError
from epp.http.budget import BodyBudget, BodyHold
from epp.http.collected import Collected
from epp.proxy.asgi import Headers, Receive
from epp.request import Body

__all__ = ["BodyBudget", "BodyHold", "announced_length", "read_body", "too_large"]


async def read_body(headers: Headers, receive: Receive, hold: BodyHold, max_bytes: int) -> Body:
    """The whole body. An announced length that is too large is refused before anything is read.

    The budget is taken as the bytes come, so that an announcement alone cannot fill it.

    Raises:
        PayloadTooLargeError, OverloadedError.
        ClientDisconnectedError: the client left before the end of the body.
    """
    if (announced_length(headers) or 0) > max_bytes:
        raise too_large(max_bytes)
    collected = Collected()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnectedError("the client left before the end of its request")
        chunk: bytes = message.get("body", b"")
        if collected.size + len(chunk) > max_bytes:
            raise too_large(max_bytes)
        hold.take(len(chunk))
        collected.add(chunk)
        if not message.get("more_body", False):
            return collected.take()


def announced_length(headers: Headers) -> int | None:
    """The content-length, None when there is none."""
    return next((int(value) for name, value in headers if name == b"content-length"), None)


def too_large(max_bytes: int) -> PayloadTooLargeError:
    """The error for a body over the limit."""
    return PayloadTooLargeError(f"the request body is larger than {max_bytes} bytes")
