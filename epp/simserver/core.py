"""The state of one simulated server, shared by its routes."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from epp.engine import Engine
from epp.simserver.errors import ApiError
from epp.simserver.faults import Faults
from epp.simserver.generation import GenerationService
from epp.simserver.metrics import SimMetrics
from epp.simserver.runner import EngineRunner
from epp.simserver.settings import SimSettings
from epp.simserver.vocabulary import Vocabulary

__all__ = ["SeenRequest", "SimCore"]


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as it arrived, for tests."""

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class SimCore:
    """One server: engine, tokenizer, metrics, faults, and what it was told by its administrator.

    `refusal` makes the error that every new request gets, None while they are served. `sleep_level` is 0
    while awake. `inference_in_flight` counts HTTP requests, as vLLM's `/load` does.
    """

    def __init__(self, settings: SimSettings) -> None:
        self.settings = settings
        self.vocabulary = Vocabulary()
        self.engine = Engine(settings.engine_config(), settings.latency)
        self.metrics = SimMetrics(settings, self.engine, time.time())
        self.runner = EngineRunner(self.engine, settings.time_scale, self.metrics.on_step)
        self.generations = GenerationService(settings, self.vocabulary, self.runner, self.metrics)
        self.faults = Faults()
        self.seen: deque[SeenRequest] = deque(maxlen=settings.record_requests)
        self.created = int(time.time())
        self.refusal: Callable[[], ApiError] | None = None
        self.sleep_level = 0
        self.inference_in_flight = 0
        self._background: set[asyncio.Task[None]] = set()

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do `work` that no connection waits for; it ends with the server."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self) -> None:
        """End what goes on in the background."""
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
