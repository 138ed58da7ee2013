"""Administration of the engines: to one endpoint, or to all of them with one answer."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from epp.director import EndReason, Target
from epp.director.administration import EngineChange, addressed, change_by, is_broadcast
from epp.errors import ClientDisconnectedError, EppError, InternalError
from epp.http import FetchError, Headers, Origin, Response, UpstreamRequest, fetch
from epp.http.errors import error_response
from epp.http.headers import response_headers
from epp.proxy.arrival import Arrival, arrival_of
from epp.proxy.asgi import Receive, Scope, Send
from epp.proxy.errors import render_error
from epp.proxy.heads import upstream_request
from epp.proxy.intake import BodyHold, read_body
from epp.proxy.surroundings import Surroundings
from epp.proxy.verdict import error_for, failure_of_exchange

__all__ = ["EngineAdmin"]

logger = logging.getLogger("epp.proxy")

_MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
_OK: Final = range(200, 300)

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one endpoint answered; `failed` when it did not, and `response` is what we say instead."""

    target: Target
    response: Response
    failed: bool = False


class EngineAdmin:
    """An ASGI application for administrative paths.

    `x-epp-target: host:port` names the endpoint, whose answer passes as it is. Without it, and always for
    adapters, every endpoint is told, and the answer says what each of them said. Nothing is ever sent twice,
    and what was begun is carried to its end even if the client leaves.
    """

    def __init__(self, around: Surroundings, on_change: Callable[[str, EngineChange], None]) -> None:
        """`on_change` is told each endpoint's address and what is no longer as it was there."""
        self._around = around
        self._on_change = on_change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        around = self._around
        arrival = arrival_of(scope, around.new_request_id, around.gate, around.proxies)
        exchange = around.director.open(arrival.head, around.now())
        error = arrival.refusal
        sent_bytes, reason = 0, EndReason.REJECTED if error else EndReason.SHUTDOWN
        try:
            if error is None:
                status, headers, body = await self._answer(scope, receive, arrival)
                around.director.on_response_head(exchange, status, around.now())
                await _send(send, status, headers, body)
                sent_bytes, reason = len(body), EndReason.COMPLETE
        except ClientDisconnectedError:
            reason = EndReason.CLIENT_DISCONNECTED
        except EppError as refusal:
            error, reason = refusal, EndReason.REJECTED
        except Exception:
            logger.exception("request %s failed", arrival.head.request_id)
            error, reason = InternalError("internal error"), EndReason.REJECTED
        finally:
            around.director.on_end(exchange, reason, around.now(), response_bytes=sent_bytes, error=error)
        if error is not None:
            refused = render_error(error, arrival.request_id, close=True)
            await _send(send, refused.status, refused.headers, refused.body)

    async def _answer(self, scope: Scope, receive: Receive, arrival: Arrival) -> tuple[int, Headers, bytes]:
        around, head = self._around, arrival.head
        hold = BodyHold(around.budget)
        try:
            body = await read_body(scope["headers"], receive, hold, around.settings.max_request_bytes)
            request = upstream_request(
                scope, arrival.request_id, body, trusted=arrival.trusted, credentials=around.credentials
            )
            query = scope["query_string"].decode("latin-1")
            targets = addressed(around.director.state.table.pool, head.path, head.headers)
            told = [self._tell(target, request, head.path, query) for target in targets]
            outcomes = await asyncio.gather(*told)
        finally:
            hold.release()
        if is_broadcast(head.path, head.headers):
            return _summary(outcomes, arrival.request_id)
        return self._relayed(outcomes[0], arrival.request_id)

    async def _tell(self, target: Target, request: UpstreamRequest, path: str, query: str) -> _Outcome:
        origin = Origin(target.scheme, target.host, target.port)
        try:
            response = await fetch(
                self._around.pool, origin, request, timeout_s=None, max_bytes=_MAX_ANSWER_BYTES, once=True
            )
        except FetchError as failed:
            if failed.failure.written:
                self._note(target, path, query, None)
            failure = failure_of_exchange(failed.failure)
            error = failure if isinstance(failure, EppError) else error_for(failure)
            return _Outcome(target, Response(*error_response(error)), failed=True)
        if response.status in _OK:
            self._note(target, path, query, response.body)
        return _Outcome(target, response)

    def _note(self, target: Target, path: str, query: str, body: bytes | None) -> None:
        change = change_by(path, query, body)
        if change is not EngineChange.NOTHING:
            self._on_change(target.address, change)

    def _relayed(self, outcome: _Outcome, request_id: bytes) -> tuple[int, Headers, bytes]:
        """One endpoint's answer, as it is."""
        response = outcome.response
        exposed = self._around.settings.expose_endpoint and not outcome.failed
        headers = response_headers(
            response.headers,
            request_id=request_id,
            endpoint=outcome.target.address.encode("ascii") if exposed else None,
            keep_content_length=False,
        )
        headers.append((b"content-length", b"%d" % len(response.body)))
        return response.status, headers, response.body


def _summary(outcomes: Sequence[_Outcome], request_id: bytes) -> tuple[int, Headers, bytes]:
    """What every endpoint said, as one answer."""
    results = {o.target.address: _result(o.response) for o in outcomes}
    body = _encode({"results": results})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id),
    ]
    return _joint_status([outcome.response.status for outcome in outcomes]), headers, body


def _joint_status(statuses: Sequence[int]) -> int:
    """200 when all succeeded, the status that all share when all failed alike, else 502."""
    if all(status in _OK for status in statuses):
        return 200
    return statuses[0] if len(set(statuses)) == 1 else 502


def _result(response: Response) -> dict[str, object]:
    return {"status": response.status, "body": _readable(response.body)}


def _readable(body: bytes) -> object:
    """JSON as JSON, other text as a string, nothing as null."""
    if not body:
        return None
    try:
        return msgspec.json.decode(body)
    except ValueError:
        return body.decode(errors="replace")


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
