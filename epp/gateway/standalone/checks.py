"""Requests that Envoy asks about before it sends them, and that its log reports when they have ended."""

import itertools
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from epp.director import Director, EndReason, Exchange
from epp.director.pick import pick_list
from epp.errors import (
    EppError,
    FirstByteTimeoutError,
    ForbiddenError,
    InternalError,
    OverloadedError,
    ShuttingDownError,
)
from epp.gateway.forms import model_of_form
from epp.gateway.heads import Line, head_of, line_of, raw, removed_names, request_id_of
from epp.gateway.standalone.lines import AccessLine
from epp.gateway.standalone.questions import Question
from epp.gateway.standalone.replies import FAILURES, STAND_INS
from epp.http.errors import error_response
from epp.http.headers import Credentials
from epp.response.types import Usage
from epp.security import KeyGate

__all__ = ["CheckAnswer", "CheckSurroundings", "Checks"]

logger = logging.getLogger("epp.gateway")

# `bootstrap` says what Envoy does with each header.
_GO_ON: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n"
    b"x-gateway-destination-endpoint: %b\r\nx-epp-exchange: %d\r\n%b\r\n"
)
_REPEAT_RESETS: Final = b"x-envoy-retry-on: reset\r\n"
_REPEAT_ALL: Final = b"x-envoy-retry-on: reset,retriable-status-codes\r\n"
_GONE: Final = frozenset({"DC", "DPE", "DT"})
_KNOWN_FLAGS: Final = 256
_WARN_EVERY_S: Final = 10.0
_SHUTTING_DOWN: Final = ShuttingDownError("the router is shutting down")


class CheckAnswer(NamedTuple):
    """What Envoy is told: 200 lets the request go on; anything else is the client's answer, where some of
    `STAND_INS` stand for others.

    `message` is all of it in HTTP/1.1. `number` names the exchange in Envoy's log, None where there is none.
    """

    message: bytes
    number: int | None = None


@dataclass(frozen=True, slots=True)
class CheckSurroundings:
    """What checks need; `now` is in monotonic seconds, `least` endpoints are told if there are so many.

    `closed` says why a path is not served, "" when it is; `max_requests` may be open at once, 0: any number.
    """

    director: Director
    now: Callable[[], float]
    new_request_id: Callable[[], bytes]
    closed: Callable[[str], str]
    least: int = 1
    max_requests: int = 0
    gate: KeyGate | None = None
    credentials: Credentials | None = None


class Checks:
    """Keeps an exchange from its check to its line in the log."""

    def __init__(self, around: CheckSurroundings) -> None:
        self._around = around
        self._numbers = itertools.count(1)
        self._open: dict[int, Exchange] = {}
        self._cutting = False
        self._unasked = 0
        self._warned = float("-inf")

    def __len__(self) -> int:
        """Requests that Envoy has."""
        return len(self._open)

    # The check.

    def check(self, question: Question) -> Generator[None, None, CheckAnswer]:
        """Decide; yields about each MB of work. Closing the generator takes everything back."""
        around, headers, body = self._around, question.headers, question.body
        line = line_of(question.method, question.target)
        given = request_id_of(headers)
        request_id = given or around.new_request_id()
        key_name, refusal = self._admit(line, headers)
        head = head_of(line, headers, request_id, key_name)
        exchange = around.director.open(head, around.now())
        if refusal is not None:
            return self._refuse(exchange, request_id, refusal)
        try:
            model = model_of_form(line.path, headers.get("content-type"), body)
            read = body if model is None else None
            yield from around.director.prepare(exchange, read, around.now(), model=model)
            exchange.body_bytes = len(body)
            told = pick_list(around.director, exchange, around.now(), least=around.least)
        except EppError as error:
            return self._refuse(exchange, request_id, error)
        except GeneratorExit:
            self._end(exchange, EndReason.CLIENT_DISCONNECTED)
            raise
        except Exception:
            logger.exception("request %s failed", request_id.decode("ascii"))
            return self._refuse(exchange, request_id, InternalError("internal error"))
        return self._let_go(exchange, None if given else request_id, ",".join(told))

    def _admit(self, line: Line, headers: Mapping[str, str]) -> tuple[str | None, EppError | None]:
        """The name of the client's key, and why the request is refused before anything is read of it."""
        around, name = self._around, None
        if around.gate is not None:
            admission = around.gate.admit(line.method, raw(headers))
            name = admission.key_name
            if admission.error is not None:
                return name, admission.error
        closed = around.closed(line.path)
        if closed:
            return name, ForbiddenError(closed)
        limit = around.max_requests
        if limit and len(self._open) >= limit:
            return name, OverloadedError(f"{limit} requests are in flight, more are not taken; try again")
        return name, None

    def _let_go(self, exchange: Exchange, own_id: bytes | None, destination: str) -> CheckAnswer:
        number = next(self._numbers)
        self._open[number] = exchange
        more = self._repeats(exchange)
        if own_id is not None:
            more += b"x-request-id: %b\r\n" % own_id
        credentials = self._around.credentials
        if credentials is not None and credentials.authorization is not None:
            more += b"authorization: %b\r\n" % credentials.authorization
        removed = removed_names(exchange.head.headers, credentials)
        if removed:
            more += b"x-envoy-auth-headers-to-remove: %b\r\n" % ",".join(removed).encode("latin-1")
        return CheckAnswer(_GO_ON % (destination.encode("ascii"), number, more), number)

    def _repeats(self, exchange: Exchange) -> bytes:
        """What Envoy may repeat beside connections that were never made."""
        if exchange.request is None or not exchange.request.replay_safe:
            return b""
        return _REPEAT_ALL if self._around.director.budget.has_room(exchange.arrived) else _REPEAT_RESETS

    def _refuse(self, exchange: Exchange, request_id: bytes, error: EppError) -> CheckAnswer:
        self._end(exchange, EndReason.REJECTED, error=error)
        status, headers, body = error_response(error)
        lines = [b"HTTP/1.1 %d Refused" % STAND_INS.get(status, status)]
        lines += [b"%b: %b" % header for header in (*headers, (b"x-request-id", request_id))]
        return CheckAnswer(b"%b\r\n\r\n%b" % (b"\r\n".join(lines), body))

    def unread(self, number: int) -> None:
        """Envoy has closed the connection on which it was told of this exchange, and logged nothing of it.

        So its client left while it asked, and nothing was sent: with its answer read, Envoy keeps it open.
        """
        exchange = self._open.pop(number, None)
        if exchange is not None:
            self._end(exchange, EndReason.CLIENT_DISCONNECTED)

    # The log.

    def ended(self, lines: Iterable[AccessLine]) -> None:
        """Envoy's log: requests have ended."""
        for line in lines:
            exchange = self._open.pop(line.exchange, None) if line.exchange is not None else None
            if exchange is not None:
                self._ended(exchange, line)
            elif line.exchange is None and line.sent:
                self._unasked += 1
        now = self._around.now()
        if self._unasked and now - self._warned >= _WARN_EVERY_S:
            logger.warning(
                "requests were sent on without a decision, which Envoy did not wait for: %d", self._unasked
            )
            self._unasked, self._warned = 0, now

    def _ended(self, exchange: Exchange, line: AccessLine) -> None:
        director = self._around.director
        reason, error = _fate(line.flags)
        if line.attempts is not None and line.attempts > 1:
            exchange.attempts = line.attempts
            director.budget.spend(line.attempts - 1, self._around.now())
        if self._cutting and reason is EndReason.CLIENT_DISCONNECTED:
            self._end(exchange, EndReason.SHUTDOWN, error=_SHUTTING_DOWN)
            return
        if line.first_ms is None and error is not None:  # no endpoint has answered
            self._end(exchange, reason, error=error)
            return
        if line.served is not None:
            director.on_served(exchange, line.served)
        if line.status:
            first = exchange.arrived + (line.first_ms or 0.0) / 1000
            director.on_response_head(exchange, line.status, first)
            director.on_first_byte(exchange, first)
        self._end(exchange, reason, usage=_usage(line), response_bytes=line.bytes)

    def cut(self) -> None:
        """Envoy will be ended now, with what it relays: connections that break are broken by us."""
        self._cutting = True

    def shut_down(self) -> None:
        """Envoy is gone: nothing more will be reported."""
        for exchange in self._open.values():
            self._end(exchange, EndReason.SHUTDOWN, error=_SHUTTING_DOWN)
        self._open.clear()

    def _end(
        self,
        exchange: Exchange,
        reason: EndReason,
        *,
        usage: Usage | None = None,
        response_bytes: int = 0,
        error: EppError | None = None,
    ) -> None:
        director, now = self._around.director, self._around.now()
        director.on_end(exchange, reason, now, usage=usage, response_bytes=response_bytes, error=error)


@lru_cache(_KNOWN_FLAGS)
def _fate(flags: str | None) -> tuple[EndReason, EppError | None]:
    """How a request ended by Envoy's flags (`DC`, `UF,URX`, …), and what clients get if nobody answered."""
    found = frozenset((flags or "-").split(","))
    if found & _GONE:
        return EndReason.CLIENT_DISCONNECTED, None
    for failed, error in FAILURES:
        if found & failed:
            late = isinstance(error, FirstByteTimeoutError)
            return EndReason.TIMEOUT if late else EndReason.UPSTREAM_ABORTED, error
    return EndReason.COMPLETE, None


def _usage(line: AccessLine) -> Usage | None:
    if line.prompt is None and line.completion is None and line.cached is None:
        return None
    counts = [None if n is None or n < 0 else int(n) for n in (line.prompt, line.completion, line.cached)]
    return None if counts == [None] * 3 else Usage(*counts)
