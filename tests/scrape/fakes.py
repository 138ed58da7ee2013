"""Time that moves when told to, endpoints that answer as scripted, and receivers that remember."""

import asyncio
from dataclasses import dataclass, field

from epp.clock import ManualClock
from epp.endpoints.types import Endpoint, EndpointSpec
from epp.http import FetchError, Origin, Response, UpstreamFailure, UpstreamRequest
from epp.http.types import ErrorKind

PAGE = b"vllm:num_requests_waiting 0\n"


async def settle():
    """Let every task run until it waits for something."""
    for _ in range(12):
        await asyncio.sleep(0)


class FakeTime(ManualClock):
    """A clock whose sleepers wake in order as it is advanced."""

    def __init__(self):
        super().__init__(now=1000.0)
        self._sleepers: list[tuple[float, asyncio.Future]] = []

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, woken))
        await woken

    async def run(self, seconds):
        await settle()
        end = self.now + seconds
        while due := [s for s in self._sleepers if s[0] <= end + 1e-9 and not s[1].done()]:
            first = min(due, key=lambda sleeper: sleeper[0])
            self._sleepers.remove(first)
            self.now = max(self.now, first[0])
            first[1].set_result(None)
            await settle()
        self.now = end


def endpoint(last=1, *, incarnation=1, **spec) -> Endpoint:
    return Endpoint(
        slot=last, incarnation=incarnation, spec=EndpointSpec("http", f"10.0.0.{last}", 8000, **spec)
    )


def failed(kind: ErrorKind, detail="gone") -> FetchError:
    return FetchError(UpstreamFailure(kind, detail, written=True))


@dataclass
class Asked:
    at: float
    origin: Origin
    request: UpstreamRequest
    timeout_s: float


class FakeNetwork:
    """Answers by host: an answer is a body, a status, an exception, or a future of one of these."""

    def __init__(self, time: FakeTime):
        self.time = time
        self.answers: dict[str, object] = {}
        self.asked: list[Asked] = []
        self.most_at_once: dict[str, int] = {}
        self._at_once: dict[str, int] = {}

    async def fetch(self, origin, request, timeout_s):
        host = origin.host
        self.asked.append(Asked(self.time.now, origin, request, timeout_s))
        self._at_once[host] = self._at_once.get(host, 0) + 1
        self.most_at_once[host] = max(self.most_at_once.get(host, 0), self._at_once[host])
        try:
            return await self._answer(self.answers.get(host, PAGE), request)
        finally:
            self._at_once[host] -= 1

    async def _answer(self, answer, request):
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, asyncio.Future):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return Response(answer, [], b"")
        return Response(200, [], answer)

    def times(self, last=1):
        """When an endpoint was asked, from the start of the test."""
        return [round(asked.at - 1000, 3) for asked in self.asked if asked.origin.host == f"10.0.0.{last}"]


@dataclass
class Receiver:
    """Takes metrics, failures, models and ratios."""

    metrics: list[tuple] = field(default_factory=list)
    failures: list[tuple] = field(default_factory=list)
    models: list[tuple] = field(default_factory=list)
    ratios: list[tuple] = field(default_factory=list)
    fault: Exception | None = None

    def on_metrics(self, address, incarnation, metrics, now):
        self.metrics.append((address, incarnation, metrics, round(now - 1000, 3)))
        if self.fault is not None:
            raise self.fault

    def on_failure(self, address, incarnation, kind, detail, now):
        self.failures.append((address, incarnation, kind, detail, round(now - 1000, 3)))

    def on_models(self, address, incarnation, models, now):
        self.models.append((address, incarnation, models, round(now - 1000, 3)))

    def on_token_ratio(self, model, bytes_per_token):
        self.ratios.append((model, round(bytes_per_token, 3)))
