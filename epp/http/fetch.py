"""One small response as a whole, for scraping and probes."""

import asyncio
from dataclasses import dataclass

from epp.http.patience import patient_timeout
from epp.http.pool import UpstreamPool
from epp.http.types import ErrorKind, Headers, Origin, ResponseHead, UpstreamFailure, UpstreamRequest

__all__ = ["FetchError", "Response", "fetch"]


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response; header names are as the endpoint sent them."""

    status: int
    headers: Headers
    body: bytes


class FetchError(Exception):
    """No complete response; `failure` says why."""

    def __init__(self, failure: UpstreamFailure) -> None:
        super().__init__(f"{failure.kind}: {failure.detail}")
        self.failure = failure


class _Collector:
    """A sink that resolves a future with the whole response."""

    def __init__(self, result: asyncio.Future[Response], max_bytes: int) -> None:
        self._result = result
        self._max_bytes = max_bytes
        self._head: ResponseHead | None = None
        self._pieces: list[bytes] = []
        self._size = 0

    def on_head(self, head: ResponseHead) -> None:
        self._head = head

    def on_data(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= self._max_bytes:
            self._pieces.append(data)
        else:
            self._pieces.clear()
            self._refuse(UpstreamFailure(ErrorKind.PROTOCOL, f"over {self._max_bytes} bytes", written=True))

    def on_end(self) -> None:
        head = self._head
        if head is not None and not self._result.done():
            self._result.set_result(Response(head.status, head.headers, b"".join(self._pieces)))

    def on_failure(self, failure: UpstreamFailure) -> None:
        self._refuse(failure)

    def _refuse(self, failure: UpstreamFailure) -> None:
        if not self._result.done():
            self._result.set_exception(FetchError(failure))


async def fetch(
    pool: UpstreamPool,
    origin: Origin,
    request: UpstreamRequest,
    *,
    timeout_s: float | None,
    max_bytes: int,
    once: bool = False,
) -> Response:
    """Send `request` and collect the response.

    A pooled connection that closes with no byte of an answer is replaced by a fresh one, once. What is not
    safe to repeat is sent `once`, on a fresh connection. Cancelling closes the connection.

    Raises:
        FetchError: it failed, took longer than `timeout_s` (TOTAL_TIMEOUT; None: the pool's own limits hold),
            or its body is larger than `max_bytes` (PROTOCOL).
    """
    try:
        async with patient_timeout(timeout_s):
            if not once:
                try:
                    return await _fetch_once(pool, origin, request, max_bytes, fresh=False)
                except FetchError as error:
                    if error.failure.kind is not ErrorKind.CLOSED_REUSED:
                        raise
            return await _fetch_once(pool, origin, request, max_bytes, fresh=True)
    except TimeoutError:
        detail = f"not complete within {timeout_s:g} s"
        raise FetchError(UpstreamFailure(ErrorKind.TOTAL_TIMEOUT, detail, written=True)) from None


async def _fetch_once(
    pool: UpstreamPool, origin: Origin, request: UpstreamRequest, max_bytes: int, *, fresh: bool
) -> Response:
    result: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    exchange = pool.send(origin, request, _Collector(result, max_bytes), fresh=fresh)
    try:
        return await result
    finally:
        exchange.abort()
