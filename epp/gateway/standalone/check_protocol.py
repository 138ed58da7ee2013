"""The Unix socket on which Envoy asks.

No head and no body is limited here: Envoy has limited both before it asks.
"""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Final, cast

from epp.gateway.standalone.checks import CheckAnswer, Checks
from epp.gateway.standalone.questions import QuestionReader
from epp.http.patience import PatientTimer

__all__ = ["CheckProtocol"]


_PATIENCE_S: Final = 0.5


class CheckProtocol(asyncio.Protocol):
    """One connection; Envoy sends the next question when it has the answer to the last."""

    def __init__(self, checks: Checks, patience_s: float = _PATIENCE_S) -> None:
        """`patience_s`: how long a line of the log may still be on its way when a connection ends."""
        self._checks = checks
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._reader = QuestionReader()
        self._transport: asyncio.Transport | None = None
        self._steps: Generator[None, None, CheckAnswer] | None = None
        self._told: int | None = None  # the exchange of the last answer, until Envoy asks again

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Envoy connected."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Envoy closed, maybe before it has read the answer."""
        self._transport = None
        if self._steps is not None:
            self._steps.close()
        if self._told is not None:
            PatientTimer(self._loop, self._patience_s, partial(self._checks.unread, self._told))

    def data_received(self, data: bytes) -> None:
        """Bytes of a question."""
        self._told = None
        try:
            question = self._reader.feed(data)
        except ValueError:
            if self._transport is not None:
                self._transport.abort()
            return
        if question is not None:
            self._steps = self._checks.check(question)
            self._advance()

    def _advance(self) -> None:
        """Decide, a step in each turn of the loop."""
        if self._steps is None or self._transport is None:
            return
        try:
            next(self._steps)
        except StopIteration as done:
            self._steps = None
            answer: CheckAnswer = done.value
            self._told = answer.number
            self._transport.write(answer.message)
        else:
            self._loop.call_soon(self._advance)
