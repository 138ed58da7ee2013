"""Missing permissions and kinds: the process stays up, says what it lacks, and recovers by itself."""

import asyncio
import json
import os

import httpx
import pytest
import yaml

from epp.app.runtime import Runtime
from epp.config import KubernetesSettings, Settings, load_config
from epp.config.builtin import builtin_config
from tests.kube.kit import Waits, cluster, following, objective, pod, until

CONFIG = load_config(builtin_config(), "default.yaml")


def settings_for(server, folder):
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}],
                "clusters": [{"name": "k", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    return Settings(kubernetes=KubernetesSettings(pool="llm", kubeconfig=str(path)))


async def readyz(runtime):
    transport = httpx.ASGITransport(app=runtime.control)
    async with httpx.AsyncClient(transport=transport, base_url="http://epp") as client:
        answer = await client.get("/readyz")
        return answer.status_code, json.loads(answer.content)


async def until_known(runtime, *addresses):
    await until(lambda: [e.address for e in runtime.core.table.pool.endpoints] == list(addresses))


@pytest.fixture(autouse=True)
def _no_namespace(monkeypatch):
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if k != "NAMESPACE"})


async def test_h01_readyz_names_verb_and_resource_and_recovers_without_a_restart(tmp_path):
    async with cluster(pod("a", "10.255.255.1")) as server:
        server.forbid("list", "pods")
        runtime = Runtime(settings_for(server, tmp_path), CONFIG)
        await runtime.start()
        try:
            status, body = await readyz(runtime)
            told = json.dumps(body)
            assert status == 503
            assert "cannot list pods in namespace ns: 403 Forbidden" in told
            assert runtime.core.table.pool.endpoints == ()

            server.allow("list", "pods")
            await until_known(runtime, "10.255.255.1:8000")
            await until(lambda: all(report.problem is None for report in runtime.sources.reports()))
        finally:
            await runtime.stop()


async def test_h01_readyz_names_a_pool_that_does_not_exist(tmp_path):
    async with cluster() as server:
        server.delete("inferencepools", "llm")
        server.delete("/apis/inference.networking.k8s.io/v1/inferencepools", "llm")
        runtime = Runtime(settings_for(server, tmp_path), CONFIG)
        await runtime.start()
        try:
            status, body = await readyz(runtime)
            assert status == 503
            assert "there is no InferencePool ns/llm" in json.dumps(body)
        finally:
            await runtime.stop()


async def test_h03_a_kind_that_is_optional_costs_one_warning():
    waits = Waits()
    async with cluster(pod("a", "10.0.0.1")) as server:
        for path in [kind for kind in server.kinds if kind.endswith(("objectives", "rewrites"))]:
            server.remove_kind(path)
        async with following(server, waits=waits) as told:
            await told.until_addresses("10.0.0.1:8000")
            for _ in range(3):
                await told.until(lambda t: len(t.remarks) == 3)
                waits.again()
                await asyncio.sleep(0.01)
            assert sorted(remark.split(" in ")[0] for remark in told.remarks) == [
                "cannot list inferencemodelrewrites.llm-d.ai",
                "cannot list inferenceobjectives.inference.networking.x-k8s.io",
                "cannot list inferenceobjectives.llm-d.ai",
            ]
            assert told.problem is None


async def test_objectives_that_are_found_count_like_those_that_are_set(tmp_path):
    async with cluster(pod("a", "10.255.255.1")) as server:
        server.put("/apis/llm-d.ai/v1alpha2/inferenceobjectives", objective("batch", -7))
        runtime = Runtime(settings_for(server, tmp_path), CONFIG)
        await runtime.start()
        try:
            headers = {"x-llm-d-inference-objective": "batch"}
            await until(lambda: runtime.core.state.admission.priority(headers) == -7)
        finally:
            await runtime.stop()
