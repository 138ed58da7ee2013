"""The front door's half of the retry contract: endpoint after endpoint, until an answer can be relayed.

The director decides whether and where a failed execution is repeated; here it is found out how one failed.
"""

from collections.abc import Callable
from http import HTTPStatus

from epp.director import Director, Exchange, Failure, Target
from epp.errors import EppError
from epp.http import Origin, UpstreamPool, UpstreamRequest
from epp.proxy.answer import BUFFER_LIMIT, Answer
from epp.proxy.verdict import RETRYABLE_STATUSES, error_for, failure_of_exchange, failure_of_status

__all__ = ["Executions"]


class Executions:
    """Nothing has gone to the client as long as `answer` is running."""

    def __init__(
        self,
        director: Director,
        pool: UpstreamPool,
        exchange: Exchange,
        now: Callable[[], float],
    ) -> None:
        self._director = director
        self._pool = pool
        self._exchange = exchange
        self._now = now
        self._current: Answer | None = None

    async def answer(self, request: UpstreamRequest) -> Answer:
        """Send `request` until there is an answer to relay; its body has begun, or it has none.

        Raises:
            SaturatedError, NoEndpointsError: nobody can take it.
            OverloadedError: the pool has no connection to spare.
            UpstreamError: every execution failed and none had an answer.
        """
        target = self._director.pick(self._exchange, self._now())
        last: Answer | None = None
        while True:
            answer = self._current = Answer(target)
            self._send(answer, request)
            outcome = await _outcome_of(answer)
            if outcome is None:
                return answer
            answer.abort()
            if answer.ended:
                last = answer
            following = self._following(outcome)
            if following is None:
                if last is None:
                    raise outcome if isinstance(outcome, EppError) else error_for(outcome)
                return last
            target = following

    def _following(self, outcome: Failure | EppError) -> Target | None:
        """Where to try again; after an error of our own nowhere, and no endpoint is to blame."""
        if isinstance(outcome, EppError):
            return None
        return self._director.next_after_failure(self._exchange, outcome, self._now())

    def _send(self, answer: Answer, request: UpstreamRequest) -> None:
        target = answer.target
        origin = Origin(target.scheme, target.host, target.port)
        # What cannot be repeated must not meet a kept connection that the endpoint has just given up.
        fresh = target.fresh_connection or not isinstance(request.body, (bytes, bytearray))
        answer.attach(self._pool.send(origin, request, answer, fresh=fresh))

    def release(self) -> None:
        """Close the connection of an answer that is not over, and let go of it."""
        if self._current is not None:
            self._current.abort()
            self._current = None


async def _outcome_of(answer: Answer) -> Failure | EppError | None:
    """Wait until it is known whether `answer` is the one to relay; None: it is."""
    while not answer.has_head:
        if answer.failure is not None:
            return failure_of_exchange(answer.failure)
        await answer.news()
    status = answer.head.status
    if (
        status == HTTPStatus.SWITCHING_PROTOCOLS
    ):  # what follows is the other protocol's, and may wait for the client
        return None
    if status not in RETRYABLE_STATUSES:
        return await _outcome_of_body(answer)
    while not answer.over and answer.buffered_bytes <= BUFFER_LIMIT:
        await answer.news()
    if answer.buffered_bytes > BUFFER_LIMIT:
        return None
    return failure_of_status(status, answer.body(), complete=answer.ended)


async def _outcome_of_body(answer: Answer) -> Failure | EppError | None:
    """Wait for the first byte of the body.

    vLLM sends the head of a stream when it accepts the request, maybe long before the prompt is computed.
    """
    while not answer.buffered_bytes and not answer.over:
        await answer.news()
    if answer.failure is not None and not answer.buffered_bytes:
        return failure_of_exchange(answer.failure)
    return None
