"""From settings to a source and an election, and what a runtime makes of them."""

import os
from dataclasses import replace

import pytest

from epp.app.cluster import election_of
from epp.app.endpoint_sources import endpoint_sources, has_sources
from epp.app.kubernetes import namespace_of
from epp.app.runtime import Runtime
from epp.clock import SystemClock
from epp.config import KubernetesSettings, Settings, load_config
from epp.config.builtin import builtin_config
from epp.discovery.alarm import Alarm
from epp.request import Rewrite
from tests.kube.kit import cluster, objective, pod, rewrite, until
from tests.kube.test_kube_processes import kubeconfig

CONFIG = load_config(builtin_config(), "default.yaml")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """Nothing of this machine's says where a cluster is."""
    given = {"HOME": str(tmp_path)}
    monkeypatch.setattr(os, "environ", given)
    return given


def settings(server, folder, **more):
    return Settings(kubernetes=KubernetesSettings(kubeconfig=kubeconfig(server, folder), **more))


def test_the_namespace_is_the_set_one_then_the_variables_then_that_of_the_credentials(tmp_path):
    class Server:
        url = "http://127.0.0.1:1"

    given = KubernetesSettings(kubeconfig=kubeconfig(Server, tmp_path))

    assert namespace_of(replace(given, namespace="set"), {"NAMESPACE": "variable"}) == "set"
    assert namespace_of(given, {"NAMESPACE": "variable"}) == "variable"
    assert namespace_of(given, {}) == "ns"
    assert namespace_of(KubernetesSettings(), {"HOME": str(tmp_path / "none")}) == "default"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"pool": "llm", "namespace": "n"}, "kubernetes pool llm in namespace n"),
        (
            {"selector": "app=vllm", "ports": "8000,8001", "namespace": "n"},
            "kubernetes pods app=vllm at 8000,8001 in namespace n",
        ),
    ],
)
def test_a_pool_or_a_selector_is_a_source(given, name):
    wanted = Settings(kubernetes=KubernetesSettings(**given))

    [source] = endpoint_sources(wanted, CONFIG, Alarm())

    assert source.name == name
    assert has_sources(wanted, CONFIG)
    assert not has_sources(Settings(), CONFIG)


def test_there_is_no_election_unless_it_is_asked_for():
    assert election_of(Settings(), SystemClock()) is None


async def test_a_runtime_follows_the_pool_its_objectives_its_rewrites_and_a_reload(tmp_path):
    async with cluster(pod("a", "10.255.255.1")) as server:
        server.put("/apis/llm-d.ai/v1alpha2/inferenceobjectives", objective("batch", -7))
        runtime = Runtime(settings(server, tmp_path, pool="llm"), CONFIG)
        await runtime.start()
        try:
            await until(lambda: runtime.core.table.endpoint("10.255.255.1:8000") is not None)
            headers = {"x-llm-d-inference-objective": "batch"}
            await until(lambda: runtime.core.state.admission.priority(headers) == -7)
            server.put("inferencemodelrewrites", rewrite("canary", "old", "new"))
            rewrites = runtime.core.options.rewrites
            await until(lambda: rewrites.choose("old", float) == Rewrite("old", "new", "canary"))
            asked = len(server.asked)
            await runtime.sources.use(CONFIG)
            assert len(server.asked) == asked  # the source goes on
        finally:
            await runtime.stop()


async def test_a_runtime_that_stands_by_says_who_leads_and_takes_over(tmp_path):
    async with cluster(pod("a", "10.255.255.1")) as server:
        wanted = settings(server, tmp_path, pool="llm", leader_election=True)
        os.environ["POD_NAME"] = "epp-0"
        first = Runtime(wanted, CONFIG)
        await first.start()
        await until(lambda: first.election.leading)
        os.environ["POD_NAME"] = "epp-1"
        second = Runtime(wanted, CONFIG)
        await second.start()
        try:
            await until(lambda: second.election.holder)
            assert second.election.holder.startswith("epp-0_")
            [reason] = [r for r in second._readiness().reasons if "standby" in r]
            assert reason.startswith("standby: the lease is held by epp-0_")
            assert not [r for r in first._readiness().reasons if "standby" in r]

            first.begin_drain()
            await first.stop()
            await until(lambda: second.election.leading)
            assert not [r for r in second._readiness().reasons if "standby" in r]
        finally:
            await second.stop()
