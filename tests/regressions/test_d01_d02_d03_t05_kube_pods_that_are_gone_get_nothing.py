"""Pods that went while nobody looked, events that cannot be read, and pods that are going."""

from tests.discovery.kit import addresses
from tests.kube.kit import cluster, following, pod, watching

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


async def test_d01_t05_a_pod_deleted_while_the_watch_was_down_is_gone_with_the_next_one():
    async with cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2")) as server, following(server) as told:
        await told.until_addresses(A, B)
        await watching(server)
        await server.stop()
        server.delete("pods", "b")
        server.compact()  # and its DELETED event can no longer be had
        await server.start()
        await told.until_addresses(A)


async def test_d02_one_faulty_event_ends_nothing():
    faulty = pod("a", "10.0.0.1")
    faulty["metadata"]["labels"] = {"app": "vllm", "n": 1}
    async with cluster() as server, following(server) as told:
        await told.until_addresses()
        await watching(server)
        server.put("pods", faulty)
        server.put("pods", pod("b", "10.0.0.2"))
        await told.until_addresses(B)
        server.delete("pods", "a")
        server.put("pods", pod("c", "10.0.0.3"))
        await told.until_addresses(B, "10.0.0.3:8000")
        assert len(told.remarks) == 1
        assert "an object of pods in namespace ns cannot be read" in told.remarks[0]


async def test_d03_a_terminating_pod_is_out_at_once_though_it_is_ready():
    async with cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2")) as server, following(server) as told:
        await told.until_addresses(A, B)
        await watching(server)
        server.put("pods", pod("a", "10.0.0.1", ready="True", deleted=True))
        await told.until_addresses(B)
        assert addresses(told.specs) == [B]
