"""`epp` as it runs in a cluster: it follows a pool of simulated servers, and is replaced without an outage."""

import asyncio
import contextlib
import functools
import itertools
import signal

import httpx
import pytest
import yaml

from epp.simserver import DEFAULT_MODEL, SimServer, core
from tests.e2e.kit import running_process
from tests.kube.api_server import RunningApiServer
from tests.kube.kit import PATIENCE_S, pod, pool

BODY = {"model": DEFAULT_MODEL, "prompt": "a b c", "max_tokens": 4}


one_vocabulary = functools.cache(core.Vocabulary)


@pytest.fixture(autouse=True)
def _vocabulary(monkeypatch):
    """Reading it takes longer than the tests."""
    monkeypatch.setattr(core, "Vocabulary", one_vocabulary)


def kubeconfig(server, folder):
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}],
                "clusters": [{"name": "k", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    return str(path)


class Cluster:
    """An API server, pods of loopback and routers; each pod has a port of its own, which is its annotation."""

    def __init__(self, server, stack, folder):
        self.server, self.stack, self.folder = server, stack, folder
        self.client = None
        self.ports = []

    async def start_pod(self, name):
        sim = await self.stack.enter_async_context(SimServer(time_scale=50.0))
        port = int(sim.url.rpartition(":")[2])
        self.ports.append(port)
        self.server.put("/apis/inference.networking.k8s.io/v1/inferencepools", pool(*self.ports))
        self.put_pod(name, port)
        return sim, port

    def put_pod(self, name, port, **changes):
        annotations = {"llm-d.ai/active-ports": str(port)}
        ready = pod(name, "127.0.0.1", annotations=annotations, declares=(), **changes)
        self.server.put("pods", ready)

    async def start_epp(self, *more, ready=True):
        arguments = (
            "--pool-name=llm",
            "--grpc-port=0",
            "--grpc-health-port=0",
            "--metrics-port=0",
            "--drain-timeout=2s",
        )
        process = await self.stack.enter_async_context(
            running_process(
                self.folder,
                "serve",
                *arguments,
                *more,
                "--host=127.0.0.1",
                "--port=0",
                "--log-format=json",
                f"--kubeconfig={kubeconfig(self.server, self.folder)}",
            )
        )
        url = await process.url()
        if ready:
            await self.until_ready(url)
        return process, url

    async def is_ready(self, url):
        try:
            return (await self.client.get(f"{url}/readyz")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    async def until_ready(self, url, patience_s=PATIENCE_S):
        async with asyncio.timeout(patience_s):
            while not await self.is_ready(url):  # noqa: ASYNC110 - another process has no event for us
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def new_cluster(folder):
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(RunningApiServer())
        made = Cluster(server, stack, folder)
        made.client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S))
        yield made


async def send(cluster, url):
    answer = await cluster.client.post(f"{url}/v1/completions", json=BODY)
    return answer.status_code, answer.headers.get("x-epp-endpoint")


async def test_pods_that_roll_are_followed_and_no_request_fails(tmp_path):
    async with new_cluster(tmp_path) as cluster:
        _, first = await cluster.start_pod("a")
        _, url = await cluster.start_epp()
        assert await send(cluster, url) == (200, f"127.0.0.1:{first}")

        _, second = await cluster.start_pod("b")
        cluster.put_pod("a", first, deleted=True)
        seen = []
        async with asyncio.timeout(PATIENCE_S):
            while [address for _, address in seen[-3:]] != [f"127.0.0.1:{second}"] * 3:
                seen.append(await send(cluster, url))
        assert {status for status, _ in seen} == {200}


async def test_a_router_is_replaced_without_an_outage(tmp_path):
    async with new_cluster(tmp_path) as cluster:
        await cluster.start_pod("a")
        old, old_url = await cluster.start_epp()
        ready = [old_url]  # what the Service knows
        answers, done = [], asyncio.Event()

        async def keep_asking():
            for turn in itertools.count():
                if done.is_set():
                    return
                answers.append(await send(cluster, ready[turn % len(ready)]))

        asking = [asyncio.create_task(keep_asking()) for _ in range(2)]
        _, new_url = await cluster.start_epp()
        ready.append(new_url)
        before = len(answers)
        ready.remove(old_url)  # the Service hears of the pod's end before the process does: preStop, or drain
        old.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            assert await old.process.wait() == 0
            while len(answers) < before + 20:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        done.set()
        await asyncio.gather(*asking)
        assert {status for status, _ in answers} == {200}


async def test_of_two_replicas_one_leads_and_the_other_takes_over_in_time_without_an_outage(tmp_path):
    async with new_cluster(tmp_path) as cluster:
        await cluster.start_pod("a")
        election = "--ha-enable-leader-election"
        leader, leader_url = await cluster.start_epp(election)
        _, standby_url = await cluster.start_epp(election, ready=False)
        waiting = await cluster.client.get(f"{standby_url}/readyz")
        assert waiting.status_code == 503
        assert "standby: the lease is held by" in waiting.text
        assert await send(cluster, leader_url) == await send(cluster, standby_url)

        leader.process.send_signal(signal.SIGTERM)
        # As kube-proxy does it: to whom is ready, else to whom still serves.
        answers = [await send(cluster, standby_url) for _ in range(5)]
        await cluster.until_ready(standby_url, patience_s=5.0)
        answers += [await send(cluster, standby_url) for _ in range(5)]
        assert await leader.process.wait() == 0
        assert {status for status, _ in answers} == {200}


async def test_replicas_that_share_a_directory_hand_the_index_over_with_the_lease(tmp_path):
    async with new_cluster(tmp_path) as cluster:
        await cluster.start_pod("a")
        shared = ("--ha-enable-leader-election", f"--state-dir={tmp_path / 'state'}")
        leader, leader_url = await cluster.start_epp(*shared)
        _, standby_url = await cluster.start_epp(*shared, ready=False)
        body = {"model": DEFAULT_MODEL, "prompt": "the same words again and again " * 100, "max_tokens": 4}
        assert (await cluster.client.post(f"{leader_url}/v1/completions", json=body)).is_success
        assert await loaded_entries(cluster, standby_url) == 0

        leader.process.send_signal(signal.SIGTERM)
        await cluster.until_ready(standby_url, patience_s=5.0)
        async with asyncio.timeout(PATIENCE_S):
            while not await loaded_entries(cluster, standby_url):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert await leader.process.wait() == 0


async def loaded_entries(cluster, url):
    page = (await cluster.client.get(f"{url}/metrics")).text
    [line] = [line for line in page.splitlines() if line.startswith("epp_state_loaded_entries ")]
    return float(line.split()[1])
