"""Drives the engine in real time: sleeps through its steps and hands out what they yield."""

import asyncio
import time
from collections.abc import Callable, Sequence

from epp.engine import Engine, EngineGauges, EngineRequest, StepOutput
from epp.simserver.errors import ApiError

__all__ = ["EngineRunner", "Submission"]

MAX_LAG_S = 0.05
"""A step may begin this much (in real seconds) before it is computed, so that late wake-ups do not add up."""

Event = tuple[int, StepOutput] | ApiError


class Submission:
    """The sequences of one HTTP request and what has come out of them."""

    def __init__(self, request_ids: Sequence[str]) -> None:
        self.request_ids = tuple(request_ids)
        self.events: asyncio.Queue[Event] = asyncio.Queue()


class EngineRunner:
    """Owner of an engine. `time_scale` model seconds pass in a real one.

    `on_step(outputs, computed_tokens, gauges)` is called when a step has ended, before its outputs are handed
    out. `gauges` are as the step left them: what arrives while it is computed belongs to the next one.
    """

    def __init__(
        self,
        engine: Engine,
        time_scale: float,
        on_step: Callable[[Sequence[StepOutput], int, EngineGauges], None],
    ) -> None:
        self.engine = engine
        self._time_scale = time_scale
        self._on_step = on_step
        self._waiters: dict[str, tuple[Submission, int]] = {}
        self._wake = asyncio.Event()

    def now(self) -> float:
        """The time in model seconds."""
        return time.monotonic() * self._time_scale

    def submit(self, requests: Sequence[EngineRequest]) -> Submission:
        """Queue the sequences of one HTTP request; raises ValueError when one cannot be taken."""
        submission = Submission([request.request_id for request in requests])
        now = self.now()
        for index, request in enumerate(requests):
            self.engine.submit(request, now)
            self._waiters[request.request_id] = (submission, index)
        self._wake.set()
        return submission

    def abort(self, submission: Submission) -> None:
        """Drop what is left of a request; does nothing when it has ended."""
        for request_id in submission.request_ids:
            if self._waiters.pop(request_id, None) is not None:
                self.engine.abort(request_id)
        if not self.engine.live_requests:
            self._on_step((), 0, self.engine.gauges())

    def fail_all(self, error: ApiError) -> None:
        """End every request with an error."""
        submissions = {submission for submission, _ in self._waiters.values()}
        for submission in submissions:
            self.abort(submission)
            submission.events.put_nowait(error)

    async def run(self) -> None:
        """Step for ever; cancelled by its owner."""
        ended_s = self.now()
        while True:
            started_s = self._start_of_step(ended_s)
            result = self.engine.step(started_s)
            if result.duration_s is None:
                await self._idle(result.wake_s)
                ended_s = self.now()
                continue
            ended_s = started_s + result.duration_s
            left = self.engine.gauges()
            await asyncio.sleep(max(0.0, (ended_s - self.now()) / self._time_scale))
            # Whoever was aborted meanwhile may have been the last: no further step would tell.
            gauges = left if self.engine.live_requests else self.engine.gauges()
            self._on_step(result.outputs, result.computed_tokens, gauges)
            self._hand_out(result.outputs)

    def _start_of_step(self, previous_end_s: float) -> float:
        now = self.now()
        return previous_end_s if now - previous_end_s < MAX_LAG_S * self._time_scale else now

    async def _idle(self, wake_s: float | None) -> None:
        """Wait for a request, at most until a transfer ends."""
        self._wake.clear()
        timeout_s = None if wake_s is None else max(0.0, (wake_s - self.now()) / self._time_scale)
        try:
            await asyncio.wait_for(self._wake.wait(), timeout_s)
        except TimeoutError:
            return

    def _hand_out(self, outputs: Sequence[StepOutput]) -> None:
        for output in outputs:
            entry = self._waiters.get(output.request_id)
            if entry is None:
                continue
            submission, index = entry
            if output.finish_reason is not None:
                del self._waiters[output.request_id]
            submission.events.put_nowait((index, output))
