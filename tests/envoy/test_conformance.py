"""What the conformance suite of the Gateway API Inference Extension asks of a gateway and its picker, as far as
it needs no cluster.
"""

import asyncio
from collections import Counter

import pytest

from epp.config.load import load_config
from tests.e2e.kit import free_port
from tests.envoy.bootstrap import Setup, bootstrap
from tests.envoy.kit import running_envoy

PINNED = """\
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: header-based-testing-filter
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: header-based-testing-filter
  - pluginRef: max-score-picker
"""
PIN = "test-epp-endpoint-selection"


async def answered_by(ask, headers, count=30, at_a_time=10):
    """How often each server answered."""
    slots = asyncio.Semaphore(at_a_time)

    async def one(number):
        async with slots:
            answer = await ask(f"{number}", headers=headers)
            assert answer.status_code == 200
            return answer.json()["server"]

    return Counter(await asyncio.gather(*map(one, range(count))))


@pytest.mark.parametrize("pinned", [1, 2, 3])
async def test_only_the_pinned_endpoints_answer(gateway, servers, pinned):
    backends = await servers(4)
    gate = await gateway(backends=backends, config=load_config(PINNED, "test"))
    wanted = [server.address for server in backends[:pinned]]

    found = await answered_by(gate.chat, {PIN: ",".join(wanted)})

    assert set(found) == set(wanted)


async def test_ranks_of_one_address_are_pinned_together_and_alone(gateway, servers):
    ranks, elsewhere = await servers(3), (await servers(1, host="127.0.0.2"))[0]
    gate = await gateway(backends=[*ranks, elsewhere], config=load_config(PINNED, "test"))

    by_ip = await answered_by(gate.chat, {PIN: "127.0.0.1"})
    by_port = await answered_by(gate.chat, {PIN: ranks[1].address}, count=10)

    assert set(by_ip) == {rank.address for rank in ranks}
    assert set(by_port) == {ranks[1].address}


async def test_the_endpoint_that_served_is_told_to_the_client(gateway):
    text = PINNED.replace("plugins:", "plugins:\n- type: destination-endpoint-served-verifier", 1)
    gate = await gateway(2, routing="override", config=load_config(text, "test"))

    answer = await gate.chat()

    served = answer.json()["server"]
    assert answer.headers["x-epp-endpoint"] == served
    assert answer.headers["x-conformance-test-served-endpoint"] == served


async def test_two_pools_get_their_shares_and_keep_to_their_endpoints(servers, spawn, stack, tmp_path):
    pools = [await servers(2), await servers(2)]
    ports = [free_port(), free_port()]
    for backends, port in zip(pools, ports, strict=True):
        endpoints = [word for server in backends for word in ("--endpoint", server.url)]
        own = ("--port", "0", "--grpc-port", str(port), "--secure-serving=false")
        await (await spawn("serve", "--host", "127.0.0.1", *own, *endpoints)).url()
    envoy = await stack.enter_async_context(running_envoy(tmp_path, weighted(ports, (70, 30))))

    async def ask(text, headers):
        body = {"model": "m", "prompt": text}
        return await envoy.client.post("/v1/completions", json=body, headers=headers)

    found = await answered_by(ask, {}, count=200)

    first = sum(found[server.address] for server in pools[0])
    assert 100 <= first <= 180  # 140 expected: more than six standard deviations to either side
    assert sum(found.values()) == 200


def weighted(ports, weights):
    """One route to two pools by weight, each with a picker of its own."""
    config = bootstrap(Setup(picker_port=ports[0]))
    resources = config["static_resources"]
    second = bootstrap(Setup(picker_port=ports[1]))["static_resources"]["clusters"][0]
    second["name"] = second["load_assignment"]["cluster_name"] = "second-picker"
    resources["clusters"].append(second)
    servers = resources["clusters"][1]
    resources["clusters"].append({**servers, "name": "second-servers"})
    override = {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute",
        "overrides": {"grpc_service": {"envoy_grpc": {"cluster_name": "second-picker"}}},
    }
    clusters = [
        {"name": "servers", "weight": weights[0]},
        {"name": "second-servers", "weight": weights[1], "typed_per_filter_config": {"picker": override}},
    ]
    manager = resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    [route] = manager["route_config"]["virtual_hosts"][0]["routes"]
    route["route"] = {"weighted_clusters": {"clusters": clusters}, "timeout": "0s"}
    return config
