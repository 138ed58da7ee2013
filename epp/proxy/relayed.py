"""One relayed request, from its head to the end of its answer."""

import asyncio
import logging
from typing import Any, NoReturn, Protocol

from epp.director import EndReason
from epp.errors import (
    EppError,
    FirstByteTimeoutError,
    InternalError,
    RequestTimeoutError,
    ShuttingDownError,
)
from epp.http import (
    BodyStream,
    Headers,
    ResponseHead,
    UpstreamFailure,
    UpstreamRequest,
)
from epp.http.patience import PatientTimer, patient_timeout
from epp.proxy.answer import Answer
from epp.proxy.arrival import arrival_of
from epp.proxy.asgi import ABORT_EXTENSION, Receive, Scope, Send
from epp.proxy.ends import CLIENT_GONE, COMPLETE, End, ended_by
from epp.proxy.errors import render_error
from epp.proxy.executions import Executions
from epp.proxy.heads import (
    is_event_stream,
    upstream_request,
)
from epp.proxy.intake import BodyHold, announced_length, read_body, too_large
from epp.proxy.observed import ObservedAnswer
from epp.proxy.renaming import fitted, names_of, with_rewritten_body
from epp.proxy.surroundings import Surroundings
from epp.proxy.uploads import ClientUpload, is_forwarded_unread
from epp.proxy.verdict import CUT_EVENT, reason_of_cut
from epp.request import Body
from epp.response import AnswerNames

__all__ = ["CutError", "RelayedRequest", "ResponseAbortedError"]

logger = logging.getLogger("epp.proxy")


class ResponseAbortedError(Exception):
    """Tells a server without the abort extension to cut the connection in the middle of an answer."""


class _Counted(Protocol):
    """A body that is forwarded as it comes; `size` is how much of it did."""

    size: int


class CutError(Exception):
    """The answer has begun and cannot be finished."""

    def __init__(self, reason: EndReason) -> None:
        super().__init__(reason)
        self.reason = reason


class RelayedRequest:
    """Drives the director and the pool for one ASGI request.

    Everything that may interrupt it (client gone, shutdown, a deadline) goes through one `asyncio.timeout`,
    which ends whatever is awaited at that moment. `run` returns or raises after everything was released.
    """

    def __init__(self, around: Surroundings, scope: Scope, receive: Receive, send: Send) -> None:
        self._around = around
        self._scope = scope
        self._receive = receive
        self._send = send
        arrival = arrival_of(scope, around.new_request_id, around.gate, around.proxies)
        self._request_id = arrival.request_id
        self._unauthorized = arrival.refusal
        self._trusted = arrival.trusted
        self._head = arrival.head
        self._exchange = around.director.open(self._head, around.now())
        self._loop = asyncio.get_running_loop()
        self._arrived = self._loop.time()
        self._hold = BodyHold(around.budget)
        self._executions = Executions(around.director, around.pool, self._exchange, around.now)
        self._observed: ObservedAnswer | None = None
        self._names: AnswerNames | None = None
        self._watch: asyncio.Task[None] | None = None
        self._timeout: asyncio.Timeout | None = None
        self._timer: PatientTimer | None = None
        self._on_timeout = COMPLETE  # what it means when the timeout ends the request
        self._sending_since: float | None = None  # a part of the answer waits for the client
        self._upload: _Counted | None = None
        self._body_read = False
        self._started = False

    async def run(self, refusal: EppError | None) -> None:
        """Serve the request, or answer it with `refusal`.

        Raises:
            ResponseAbortedError: the server must cut the connection.
        """
        end = End(EndReason.SHUTDOWN)  # the server cancels what a drain has left over
        try:
            refusal = self._unauthorized or refusal
            end = await self._outcome() if refusal is None else ended_by(refusal)
            await self._conclude(end)
        finally:
            self._release(end)

    def shut_down(self) -> None:
        """End the request now: with an error if nothing was sent, else by cutting the answer."""
        self._interrupt(ended_by(ShuttingDownError("the router is shutting down")))

    def cut_if_stalled(self, since: float) -> None:
        """End the request if the client has taken nothing of its answer `since` then (time of the loop)."""
        if self._sending_since is not None and self._sending_since < since:
            self._interrupt(End(EndReason.TIMEOUT))

    # How it ends.

    async def _outcome(self) -> End:
        try:
            return await self._under_timeout()
        except EppError as error:
            return ended_by(error)
        except CutError as cut:
            return End(cut.reason)
        except Exception:
            logger.exception("request %s failed", self._request_id.decode("ascii"))
            return ended_by(InternalError("internal error"))

    async def _under_timeout(self) -> End:
        try:
            async with asyncio.timeout(None) as timeout:
                self._timeout = timeout
                late = RequestTimeoutError("the body of the request did not arrive in time")
                self._bound(self._around.settings.body_timeout_s, late)
                await self._serve()
        except TimeoutError:
            if not timeout.expired():
                raise
            return self._on_timeout
        finally:
            self._timeout = None
            self._unbound()
        return COMPLETE

    async def _conclude(self, end: End) -> None:
        """Tell the client what it does not know yet."""
        if end is COMPLETE or end is CLIENT_GONE:
            return
        if self._started:
            self._cut()
        elif end.error is not None:
            await self._send_error(end.error)

    async def _send_error(self, error: EppError) -> None:
        response = render_error(error, self._request_id, close=not self._body_read)
        start = {"type": "http.response.start", "status": response.status, "headers": response.headers}
        try:
            async with patient_timeout(self._around.settings.client_stall_timeout_s):
                await self._send(start)
                await self._send({"type": "http.response.body", "body": response.body})
        except TimeoutError:
            self._cut()

    def _cut(self) -> None:
        extension = self._scope.get("extensions", {}).get(ABORT_EXTENSION)
        if extension is None:
            raise ResponseAbortedError("the answer broke off")
        extension["abort"]()

    def _release(self, end: End) -> None:
        """Give everything back and tell the director, exactly once."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._executions.release()
        self._hold.release()
        if self._upload is not None:
            self._exchange.body_bytes = self._upload.size
        observed = self._observed
        self._around.director.on_end(
            self._exchange,
            end.reason,
            self._around.now(),
            usage=observed.usage() if observed is not None else None,
            response_bytes=observed.size if observed is not None else 0,
            error=None if self._started else end.error,
        )

    def _interrupt(self, end: End) -> None:
        if self._timeout is not None and not self._timeout.expired():
            self._on_timeout = end
            self._timeout.reschedule(self._loop.time())
            self._timeout = None  # the first interruption stands

    # The request.

    async def _serve(self) -> None:
        await self._relay(await self._answer())

    async def _answer(self) -> Answer:
        """The answer to relay. The request ends here: its body need not wait for the end of a long answer."""
        unread = is_forwarded_unread(self._head.method, self._head.path, self._scope["headers"])
        request = await (self._begin_upload() if unread else self._read_request())
        return await self._executions.answer(request)

    async def _read_request(self) -> UpstreamRequest:
        settings = self._around.settings
        headers = self._scope["headers"]
        body = await read_body(headers, self._receive, self._hold, settings.max_request_bytes)
        self._watch_from_here()
        await self._prepare(body)
        request = self._upstream_request(body)
        return with_rewritten_body(request, self._exchange, self._hold)

    async def _begin_upload(self) -> UpstreamRequest:
        """A request whose body goes on as it comes, once an endpoint takes it."""
        headers = self._scope["headers"]
        max_bytes = self._around.settings.max_request_bytes
        if (announced_length(headers) or 0) > max_bytes:
            raise too_large(max_bytes)
        self._upload = upload = ClientUpload(headers, self._receive, max_bytes)
        model = await upload.model(self._head.path, self._head.headers)
        await self._prepare(None, model=model)
        extension = self._scope.get("extensions", {}).get(ABORT_EXTENSION)
        if extension is not None:  # nobody receives while the endpoint takes nothing
            extension["when_gone"](lambda: self._interrupt(CLIENT_GONE))
        self._watch = asyncio.create_task(self._forward(upload))
        return self._upstream_request(upload)

    async def _forward(self, upload: ClientUpload) -> None:
        try:
            await upload.forward()
        except EppError as error:
            self._interrupt(ended_by(error))
            return
        self._on_body_read()
        await self._watch_client()

    def _upstream_request(
        self, body: Body | BodyStream, upgrade_headers: Headers | None = None
    ) -> UpstreamRequest:
        return upstream_request(
            self._scope,
            self._request_id,
            body,
            trusted=self._trusted,
            credentials=self._around.credentials,
            upgrade_headers=upgrade_headers,
        )

    async def _prepare(self, body: Body | None, *, model: str | None = None) -> None:
        around = self._around
        for _ in around.director.prepare(self._exchange, body, around.now(), model=model):
            await asyncio.sleep(0)

    def _watch_from_here(self) -> None:
        """The request is complete: what comes from the client is its leaving."""
        self._on_body_read()
        self._watch = asyncio.create_task(self._watch_client())

    def _on_body_read(self) -> None:
        self._body_read = True
        total_s = self._around.settings.total_timeout_s
        if total_s:
            left_s = self._arrived + total_s - self._loop.time()
            self._bound(left_s, FirstByteTimeoutError("no answer within the total time"))
        else:
            self._unbound()

    async def _watch_client(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._interrupt(CLIENT_GONE)

    def _bound(self, limit_s: float, late: EppError) -> None:
        """End the request with `late` if it takes longer from here on."""
        self._unbound()
        self._timer = PatientTimer(self._loop, limit_s, lambda: self._interrupt(ended_by(late)))

    def _unbound(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # The answer.

    async def _relay(self, answer: Answer) -> None:
        head = answer.head
        start = self._begin_answer(answer)
        if not self._body_read:
            # The answer came before the end of the upload, of which the rest is thrown away.
            start["headers"].append((b"connection", b"close"))
        await self._send_answer(start)
        more = True
        while more:
            data = answer.take()
            if data:
                data = self._observe(data)
            if answer.failure is not None:
                await self._break_off(head, answer.failure, data)
            more = not answer.ended
            if data or not more:
                await self._send_answer({"type": "http.response.body", "body": data, "more_body": more})
            if more:
                await answer.news()

    def _begin_answer(self, answer: Answer) -> dict[str, Any]:
        """The head of `answer` goes to the client: the message that says it."""
        head = answer.head
        self._hold.release()
        self._observed = observed = ObservedAnswer(self._around, self._exchange, head)
        self._started = True
        headers = observed.headers(answer.target, head, self._scope, self._request_id)
        self._names, trial = names_of(self._exchange, head), names_of(self._exchange, head)
        if trial is not None:
            headers = fitted(headers, trial, first := answer.body(), trial.feed(first))
        return {"type": "http.response.start", "status": head.status, "headers": headers}

    async def _send_answer(self, message: dict[str, Any]) -> None:
        self._sending_since = self._loop.time()
        await self._send(message)
        self._sending_since = None

    def _observe(self, data: bytes) -> bytes:
        """Look at bytes of the body; what the client gets of them."""
        if self._observed is not None:
            self._observed.feed(data)
        return data if self._names is None else self._names.feed(data)

    async def _break_off(self, head: ResponseHead, failure: UpstreamFailure, data: bytes) -> NoReturn:
        """Deliver what came, and end the request as what it is: not complete."""
        if self._around.settings.stream_error_event and is_event_stream(head):
            data += CUT_EVENT
        if data:
            await self._send_answer({"type": "http.response.body", "body": data, "more_body": True})
        raise CutError(reason_of_cut(failure))
