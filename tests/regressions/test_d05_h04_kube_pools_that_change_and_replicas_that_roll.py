"""D05: a pool's ports and the pool itself change while pods do. H04: replicas that roll are ready by themselves."""

import pytest

from tests.kube.kit import cluster, following, pod, pool, watching
from tests.kube.manifests import kustomized, only

PATH = "/apis/inference.networking.k8s.io/v1/inferencepools"


async def test_d05_the_set_is_always_pods_times_ports():
    async with (
        cluster(pod("a", "10.0.0.1"), ports=(8000, 8001)) as server,
        following(server) as told,
    ):
        await told.until_addresses("10.0.0.1:8000", "10.0.0.1:8001")
        await watching(server)
        await watching(server, "inferencepools")
        server.put(PATH, pool(8000))
        server.put("pods", pod("b", "10.0.0.2"))
        await told.until_addresses("10.0.0.1:8000", "10.0.0.2:8000")
        server.delete(PATH, "llm")
        server.delete("pods", "a")
        await told.until(lambda t: t.specs == ())
        server.put(PATH, pool(8000))
        server.put("pods", pod("c", "10.0.0.3"))
        await told.until_addresses("10.0.0.2:8000", "10.0.0.3:8000")


async def test_h04_every_replica_finds_the_pool_and_asks_nobody_for_leave():
    """Readiness waits for no leader, so a rolling update that waits for readiness ends."""
    async with cluster(pod("a", "10.0.0.1")) as server:
        async with following(server) as first, following(server) as second, following(server) as third:
            for told in (first, second, third):
                await told.until_addresses("10.0.0.1:8000")
        assert not [kind for _, kind, _ in server.asked if kind.endswith("leases")]


@pytest.mark.parametrize("folder", ["proxy", "proxy-replicated", "gateway/gke"])
def test_h04_the_new_pod_is_ready_before_an_old_one_goes(folder):
    spec = only(kustomized(folder), "Deployment")["spec"]

    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }


def test_h04_where_one_replica_leads_an_update_does_not_wait_for_the_others_to_be_ready():
    """Only the leader is ever ready: with maxUnavailable below 100 % the old leader would never go."""
    spec = only(kustomized("proxy-leader-election"), "Deployment")["spec"]

    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": "100%"}
    assert spec["replicas"] == 2
