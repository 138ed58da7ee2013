"""Requests that Envoy asks about before it sends them, and that its log reports when they have ended."""

import itertools
import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final

from epp.director import Director, EndReason, Exchange
from epp.director.pick import pick_list
from epp.errors import (
    EppError,
    ForbiddenError,
    InternalError,
    ShuttingDownError,
    UpstreamConnectError,
)
from epp.gateway.events import DESTINATION, RequestHeaders
from epp.gateway.heads import line_of, request_head, request_mutation
from epp.gateway.standalone.bootstrap import EXCHANGE, STAND_INS
from epp.gateway.standalone.lines import AccessLine
from epp.http.errors import error_response
from epp.http.headers import Credentials, find_request_id
from epp.http.types import Headers
from epp.response.types import Usage
from epp.security import KeyGate

__all__ = ["CheckAnswer", "CheckSurroundings", "Checks"]

logger = logging.getLogger("epp.gateway")

_REMOVE: Final = b"x-envoy-auth-headers-to-remove"
_GONE: Final = frozenset({"DC", "DPE", "DT"})
_UNREACHED: Final = frozenset({"UF", "UH", "UO", "NR", "NC", "URX"})
_BROKEN: Final = frozenset({"UC", "UR", "LR", "UPE"})
_LATE: Final = frozenset({"UT", "SI", "UMSDR", "DT"})


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """What Envoy is told: 200 lets the request go on; anything else is the client's answer, where some of
    `STAND_INS` stand for others.

    `number` names the exchange in Envoy's log, None where there is none.
    """

    status: int
    headers: Headers
    body: bytes = b""
    number: int | None = None


@dataclass(frozen=True, slots=True)
class CheckSurroundings:
    """What checks need; `now` is in monotonic seconds, `least` endpoints are told if there are so many.

    `closed` says why a path is not served, "" when it is.
    """

    director: Director
    now: Callable[[], float]
    new_request_id: Callable[[], bytes]
    closed: Callable[[str], str]
    least: int = 1
    gate: KeyGate | None = None
    credentials: Credentials | None = None


class Checks:
    """Keeps an exchange from its check to its line in the log."""

    def __init__(self, around: CheckSurroundings) -> None:
        self._around = around
        self._numbers = itertools.count(1)
        self._open: dict[int, Exchange] = {}

    def __len__(self) -> int:
        """Requests that Envoy has."""
        return len(self._open)

    def check(
        self, method: bytes, target: bytes, headers: Headers, body: bytes
    ) -> Generator[None, None, CheckAnswer]:
        """Decide; yields about each MB of work. Closing the generator takes everything back."""
        around = self._around
        event = RequestHeaders([(b":method", method), (b":path", target), *headers])
        line = line_of(event)
        request_id = find_request_id(headers) or around.new_request_id()
        admission = around.gate.admit(line.method, headers) if around.gate else None
        head = request_head(event, line, request_id, admission.key_name if admission else None)
        exchange = around.director.open(head, around.now())
        refusal = admission.error if admission is not None else None
        closed = around.closed(line.path)
        if refusal is not None or closed:
            return self._refuse(exchange, request_id, refusal or ForbiddenError(closed))
        try:
            yield from around.director.prepare(exchange, body, around.now())
            told = pick_list(around.director, exchange, around.now(), least=around.least)
        except EppError as error:
            return self._refuse(exchange, request_id, error)
        except GeneratorExit:
            self._end(exchange, EndReason.CLIENT_DISCONNECTED)
            raise
        except Exception:
            logger.exception("request %s failed", request_id.decode("ascii"))
            return self._refuse(exchange, request_id, InternalError("internal error"))
        return self._let(exchange, event, request_id, ",".join(told))

    def _let(
        self, exchange: Exchange, event: RequestHeaders, request_id: bytes, destination: str
    ) -> CheckAnswer:
        number = next(self._numbers)
        self._open[number] = exchange
        mutation = request_mutation(
            event,
            request_id=request_id,
            destination=destination,
            credentials=self._around.credentials,
        )
        headers: Headers = [*mutation.replaced, (EXCHANGE.encode("ascii"), b"%d" % number)]
        # The pick goes to Envoy alone: who sent such a header wanted to choose.
        forged = [DESTINATION] if any(name == DESTINATION.encode() for name, _ in event.headers) else []
        removed = [*mutation.removed, *forged]
        if removed:
            headers.append((_REMOVE, ",".join(removed).encode("latin-1")))
        return CheckAnswer(200, headers, number=number)

    def _refuse(self, exchange: Exchange, request_id: bytes, error: EppError) -> CheckAnswer:
        self._end(exchange, EndReason.REJECTED, error=error)
        status, headers, body = error_response(error)
        kept = [header for header in headers if header[0] != b"content-length"]
        return CheckAnswer(STAND_INS.get(status, status), [*kept, (b"x-request-id", request_id)], body)

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

    def ended(self, line: AccessLine) -> None:
        """Envoy's log: a request has ended."""
        number = line.exchange or ""
        exchange = self._open.pop(int(number), None) if number.isascii() and number.isdigit() else None
        if exchange is None:
            return
        director = self._around.director
        flags = frozenset((line.flags or "-").split(","))
        if flags & _UNREACHED:
            self._end(exchange, EndReason.UPSTREAM_ABORTED, error=UpstreamConnectError("no connection"))
            return
        if line.served is not None:
            director.on_served(exchange, line.served)
        if line.status:
            first = exchange.arrived + (line.first_ms or 0.0) / 1000
            director.on_response_head(exchange, line.status, first)
            director.on_first_byte(exchange, first)
        self._end(exchange, _reason(flags), usage=_usage(line), response_bytes=line.bytes)

    def lost(self, number: int) -> None:
        """Envoy has closed the connection on which it was told of this exchange: maybe it never read it."""
        exchange = self._open.pop(number, None)
        if exchange is not None:
            self._around.director.on_unobserved(exchange, self._around.now())

    def shut_down(self) -> None:
        """Envoy is gone: nothing more will be reported."""
        for exchange in self._open.values():
            self._end(exchange, EndReason.SHUTDOWN, error=ShuttingDownError("the router is shutting down"))
        self._open.clear()


def _reason(flags: frozenset[str]) -> EndReason:
    if flags & _GONE:
        return EndReason.CLIENT_DISCONNECTED
    if flags & _BROKEN:
        return EndReason.UPSTREAM_ABORTED
    return EndReason.TIMEOUT if flags & _LATE else EndReason.COMPLETE


def _usage(line: AccessLine) -> Usage | None:
    counts = [None if n is None or n < 0 else int(n) for n in (line.prompt, line.completion, line.cached)]
    return None if counts == [None] * 3 else Usage(*counts)
