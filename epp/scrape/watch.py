"""One task for each endpoint, as endpoints come and go."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from epp.endpoints.types import Endpoint

__all__ = ["Watch", "Watched"]


class Watched:
    """What the task of one endpoint looks at: `endpoint` is always the latest that is known of it.

    `number` counts the endpoints ever watched, to spread work that would otherwise come in step.
    """

    __slots__ = ("endpoint", "number")

    def __init__(self, endpoint: Endpoint, number: int) -> None:
        self.endpoint = endpoint
        self.number = number


class Watch:
    """Runs `run(watched)` for every endpoint from `start` to `stop`.

    `run` must not end by itself. An endpoint that goes away has its task cancelled. One whose incarnation or
    uid changes keeps its task, which sees the new endpoint, unless `anew`: then a new task begins.
    """

    def __init__(self, run: Callable[[Watched], Awaitable[None]], *, anew: bool = False) -> None:
        self._run = run
        self._anew = anew
        self._watched: dict[str, Watched] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._started = False
        self._count = 0

    def sync(self, endpoints: Iterable[Endpoint]) -> None:
        """Watch exactly these endpoints; before `start` they are only noted."""
        wanted = {endpoint.address: endpoint for endpoint in endpoints}
        for address in [address for address in self._watched if address not in wanted]:
            del self._watched[address]
            self._end(address)
        for address, endpoint in wanted.items():
            self._take(address, endpoint)

    def _take(self, address: str, endpoint: Endpoint) -> None:
        watched = self._watched.get(address)
        if watched is None or (self._anew and watched.endpoint.incarnation != endpoint.incarnation):
            self._end(address)
            self._watched[address] = Watched(endpoint, self._count)
            self._count += 1
            self._begin(address)
        else:
            watched.endpoint = endpoint

    def restart(self, address: str) -> None:
        """Begin anew with one endpoint, if it is watched."""
        if address in self._watched:
            self._end(address)
            self._begin(address)

    def start(self) -> None:
        """Begin with what has been noted; needs a running loop."""
        self._started = True
        for address in self._watched:
            self._begin(address)

    async def stop(self) -> None:
        """Cancel every task and wait for them."""
        self._started = False
        for address in list(self._tasks):
            self._end(address)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _begin(self, address: str) -> None:
        if self._started:
            work = self._work(self._watched[address])
            self._tasks[address] = asyncio.get_running_loop().create_task(work, name=f"watch {address}")

    async def _work(self, watched: Watched) -> None:
        await self._run(watched)

    def _end(self, address: str) -> None:
        task = self._tasks.pop(address, None)
        if task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
