"""Pods and pools as the API server has them, and a source that follows them."""

import asyncio
import contextlib

from epp.discovery.kubernetes.access import Access
from epp.discovery.kubernetes.api import ApiClient
from epp.discovery.kubernetes.follower import FollowPolicy
from epp.discovery.kubernetes.source import KubernetesSource, PoolName, Surroundings
from tests.discovery.kit import Recorder, addresses
from tests.kube.api_server import RunningApiServer

POOL = PoolName("llm")
PATIENCE_S = 10.0


def pod(name, ip, *, labels=None, ready="True", phase="Running", deleted=False, uid=None, **more):
    meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "labels": labels or {"app": "vllm"}}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    meta["annotations"] = more.get("annotations")
    container = {"name": "vllm", "ports": [{"containerPort": port} for port in more.get("declares", (8000,))]}
    return {
        "metadata": meta,
        "spec": {"containers": [container]},
        "status": {
            "phase": phase,
            "podIP": ip,
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "vllm", "restartCount": more.get("restarts", 0)}],
        },
    }


def pool(*ports, labels=None, name="llm", **spec):
    selector = {"matchLabels": labels or {"app": "vllm"}}
    target = [{"number": port} for port in ports or (8000,)]
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"selector": selector, "targetPorts": target, **spec},
    }


def objective(name, priority, pool_name="llm"):
    return {"metadata": {"name": name}, "spec": {"priority": priority, "poolRef": {"name": pool_name}}}


def rewrite(name, model, target="m-v2", *, pool_name="llm", created="2026-01-01T00:00:00Z"):
    rule = {"matches": [{"model": {"value": model}}], "targets": [{"modelRewrite": target}]}
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {"poolRef": {"name": pool_name}, "rules": [rule]},
    }


class Told(Recorder):
    """A sink that can be waited for, and what else a source said."""

    def __init__(self):
        super().__init__()
        self.priorities, self.remarks, self.notes, self.rewrites = {}, [], [], None
        self._condition = asyncio.Condition()

    async def until(self, rule):
        """Wait until `rule` of this recorder holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not rule(self):
                self._news.clear()
                await self._news.wait()

    async def until_addresses(self, *wanted):
        await self.until(lambda told: told.specs is not None and addresses(told.specs) == list(wanted))

    def on_priorities(self, found):
        self.priorities = dict(found)
        self._news.set()

    def on_rewrites(self, rules):
        self.rewrites = rules
        self._news.set()

    def on_remark(self, text):
        self.remarks.append(text)
        self._news.set()


class Waits:
    """Pauses that are over at once, and remembers how long they were to be.

    `absent` ones, which are long, last until `again` is called.
    """

    def __init__(self):
        self.asked = []
        self._again = asyncio.Event()

    def again(self):
        self._again.set()
        self._again = asyncio.Event()

    def new_pause(self):
        async def pause(seconds):
            self.asked.append(seconds)
            if seconds >= 100:
                await self._again.wait()
            # Real time, but none that anything waits for: it only keeps a broken server from being asked
            # in a busy loop.
            await asyncio.sleep(0.001)
            return False

        return pause


@contextlib.asynccontextmanager
async def following(
    server, target=POOL, *, waits=None, token=lambda: "", stall_s=30.0, rewrites=True, **policy
):
    """A running source; yields what it told."""
    told, waits = Told(), waits or Waits()
    around = Surroundings(
        waits.new_pause,
        random=lambda: 1.0,
        on_priorities=told.on_priorities,
        on_rewrites=told.on_rewrites if rewrites else None,
        on_remark=told.on_remark,
        on_note=told.notes.append,
        policy=FollowPolicy(**policy),
    )
    access = Access(server.url, "ns", token, None)
    source = KubernetesSource(lambda: ApiClient(access, stall_s=stall_s), "ns", target, around)
    task = asyncio.create_task(source.run(told))
    try:
        yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def cluster(*pods, ports=(8000,)):
    """An API server with a pool `llm` and these pods."""
    async with RunningApiServer() as server:
        server.put("inferencepools", pool(*ports))
        for item in pods:
            server.put("pods", item)
        yield server


async def watching(server, plural="pods", count=1):
    """Wait until so many watches of a kind are open."""
    await until(lambda: sum(watch.kind.endswith(f"/{plural}") for watch in server.watches) >= count)


async def until(condition):
    """Wait for a state that has no event of its own."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
