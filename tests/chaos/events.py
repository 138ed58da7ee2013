"""What goes wrong, at random: who is disturbed, how, and for how long; at most two servers at a time."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from epp.config.builtin import builtin_config
from tests.chaos.router import NAME, Stage, shuffled
from tests.chaos.servers import HttpServer, InProcess

__all__ = ["Disturbance", "Mischief"]

Server = InProcess | HttpServer

CUTS = frozenset({"kill", "reset-after", "truncate", "hang-after"})
"""After them a stream that had begun may end as an error."""
HANGS = frozenset({"hang"})
"""After them a request may wait in vain."""

AT_ONCE = 2
SETTLE_S = 0.7
"""How long a calmed server still counts: a request that it let down may be at its second server, slow to answer, and
has one execution left, which the router need not stretch."""


@dataclass(slots=True)
class Disturbance:
    """One server, from when on and until when; times are the loop's."""

    kind: str
    endpoint: str
    began: float
    ended: float = float("inf")


@dataclass
class Mischief:
    """Disturbs a stage until it is told to stop; `log` is what was done."""

    stage: Stage
    servers: list[Server]
    chosen: random.Random
    pause_s: tuple[float, float]
    log: list[Disturbance] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    _busy: set[str] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, seconds: float) -> None:
        """Events in random order, each kind before any comes a second time; then calm."""
        kinds = self._kinds()
        order: list[str] = []
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while clock() < end:
            if not order:
                order = self.chosen.sample(sorted(kinds), len(kinds))
            name = order.pop()
            self.counts[name] = self.counts.get(name, 0) + 1
            task = asyncio.create_task(kinds[name](), name=f"mischief {name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(self.chosen.uniform(*self.pause_s))
        await asyncio.gather(*self._tasks)

    def _kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        faults = {
            "hang": ("hang", 2),
            "reset before head": ("reset-before-head", 3),
            "reset mid-head": ("reset-in-head", 3),
            "close before head": ("close-before-head", 3),
            "garbage head": ("garbage-head", 2),
            "reset mid-stream": ("reset-after=3", 2),
            "cut mid-stream": ("truncate=3", 2),
            "hang mid-stream": ("hang-after=3", 2),
            "slow replies": ("slow-head=0.6", 6),
            "busy": ("status=503", 1),
            "draining": ("draining", 1),
        }
        pages = ("garbage-head", "hang", "truncate=0", "status=500", "reset-before-head")
        kinds: dict[str, Callable[[], Awaitable[None]]] = {
            name: lambda fault=fault, times=times: self._fault(fault, times)
            for name, (fault, times) in faults.items()
        }
        kinds |= {f"metrics {page}": lambda page=page: self._fault(page, 5, "/metrics") for page in pages}
        return kinds | {
            "kill": self._kill,
            "kill again": self._kill,
            "dns drops one": self._dns_drop,
            "dns fails": self._dns_fail,
            "reload": self._reload,
            "bad reload": self._bad_reload,
            "clock jumps ahead": self._jump_ahead,
            "wall clock jumps": self._jump_wall,
        }

    # Servers.

    async def _kill(self) -> None:
        server = await self._free_server()
        noted = self._note("kill", server)
        await server.kill()
        await asyncio.sleep(self.chosen.uniform(0.3, 1.5))
        await server.start()
        self._end(noted)

    async def _fault(self, fault: str, times: int, path: str = "") -> None:
        server = await self._free_server()
        noted = self._note("metrics" if path else fault.partition("=")[0], server)
        await server.disturb(fault, times, path)
        await asyncio.sleep(self.chosen.uniform(0.5, 1.0))
        await server.calm()
        self._end(noted)

    async def _free_server(self) -> Server:
        """One that is left alone, as soon as there may be another one; it is taken."""
        while len(self._busy) >= AT_ONCE:
            await asyncio.sleep(0.05)
        server = self.chosen.choice([s for s in self.servers if s.address not in self._busy])
        self._busy.add(server.address)
        return server

    def _note(self, kind: str, server: Server) -> Disturbance:
        noted = Disturbance(kind, server.address, asyncio.get_running_loop().time())
        self.log.append(noted)
        return noted

    def _end(self, noted: Disturbance) -> None:
        loop = asyncio.get_running_loop()
        noted.ended = loop.time()
        loop.call_later(SETTLE_S, self._busy.discard, noted.endpoint)

    # What is around them.

    async def _dns_drop(self) -> None:
        dns, key = self.stage.dns, (NAME, "A")
        hosts = dns.records[key]
        if len(hosts) < len(self.servers):
            return
        dns.records[key] = shuffled(hosts, self.chosen)[1:]
        await asyncio.sleep(0.8)
        dns.records[key] = hosts

    async def _dns_fail(self) -> None:
        self.stage.dns.failing.add((NAME, "A"))
        await asyncio.sleep(0.8)
        self.stage.dns.failing.discard((NAME, "A"))

    async def _reload(self) -> None:
        weight = self.chosen.choice((1, 2, 3))
        self._replace_config(builtin_config().replace("weight: 2", f"weight: {weight}"))

    async def _bad_reload(self) -> None:
        self._replace_config("apiVersion: llm-d.ai/v1alpha1\nkind: Nonsense\n")
        await asyncio.sleep(0.5)
        self._replace_config(builtin_config())

    def _replace_config(self, text: str) -> None:
        new = self.stage.config.with_name("next")
        new.write_text(text)
        new.replace(self.stage.config)

    async def _jump_ahead(self) -> None:
        self.stage.clock.ahead_s += self.chosen.uniform(1.0, 30.0)

    async def _jump_wall(self) -> None:
        self.stage.clock.wall_ahead_s += self.chosen.uniform(-3600.0, 3600.0)
