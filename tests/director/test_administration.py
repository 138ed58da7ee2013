"""Administrative requests: who is told, and what is no longer known afterwards."""

import pytest

from epp.director.administration import EngineChange, addressed, change_by, is_broadcast
from epp.endpoints.types import EndpointMetrics
from epp.errors import EndpointNotFoundError, NoEndpointsError
from tests.director.core import Pool, usage

E2 = "10.0.0.2:8000"
PROMPT = "The quick brown fox jumps over the lazy dog. " * 64


def told(pool, path="/sleep", **headers):
    return [
        t.address
        for t in addressed(pool.core.table.pool, path, {k.replace("_", "-"): v for k, v in headers.items()})
    ]


def test_without_a_target_every_endpoint_is_told_whatever_its_state():
    pool = Pool(n=3)
    pool.core.table.mark_draining(E2)

    assert told(pool) == ["10.0.0.1:8000", E2, "10.0.0.3:8000"]
    assert is_broadcast("/sleep", {})


def test_the_target_alone_is_told_on_a_connection_of_its_own():
    pool = Pool(n=3)
    [target] = addressed(pool.core.table.pool, "/sleep", {"x-epp-target": E2})

    assert (target.address, target.scheme, target.host, target.port) == (E2, "http", "10.0.0.2", 8000)
    assert target.fresh_connection
    assert not is_broadcast("/sleep", {"x-epp-target": E2})


def test_an_unknown_target_is_named():
    with pytest.raises(
        EndpointNotFoundError, match=r"x-epp-target names no endpoint of this pool: '10\.9\.9\.9:1'"
    ):
        told(Pool(), x_epp_target="10.9.9.9:1")


def test_a_pool_without_endpoints_can_be_told_nothing():
    with pytest.raises(NoEndpointsError):
        told(Pool(n=0))


@pytest.mark.parametrize("path", ["/v1/load_lora_adapter", "/v1/unload_lora_adapter"])
def test_adapters_are_loaded_everywhere(path):
    assert len(told(Pool(n=3), path, x_epp_target=E2)) == 3
    assert change_by(path, "", b"") is EngineChange.MODELS


@pytest.mark.parametrize(
    "path, query, change",
    [
        ("/reset_prefix_cache", "", EngineChange.GPU_TIER),
        ("/reset_prefix_cache", "reset_external=false", EngineChange.GPU_TIER),
        ("/reset_prefix_cache", "reset_running_requests=true&reset_external=True", EngineChange.ALL_TIERS),
        ("/reset_prefix_cache", "reset_external=1", EngineChange.ALL_TIERS),
        ("/sleep", "", EngineChange.ALL_TIERS),
        ("/sleep", "level=2&mode=wait", EngineChange.ALL_TIERS),
        ("/sleep", "level=0", EngineChange.NOTHING),
        ("/pause", "", EngineChange.ALL_TIERS),
        ("/pause", "mode=wait", EngineChange.ALL_TIERS),
        ("/pause", "mode=keep", EngineChange.NOTHING),
        ("/pause", "clear_cache=false", EngineChange.NOTHING),
        ("/release_kv_cache_memory", "", EngineChange.ALL_TIERS),
        ("/wake_up", "", EngineChange.NOTHING),
        ("/reset_mm_cache", "", EngineChange.NOTHING),
        ("/is_sleeping", "", EngineChange.NOTHING),
    ],
)
def test_what_a_request_takes_from_the_caches(path, query, change):
    assert change_by(path, query, b"") is change
    assert change_by(path, query, None) is change


@pytest.mark.parametrize(
    "body, change",
    [
        (b'{"success":false}', EngineChange.NOTHING),
        (b'{"success":true}', EngineChange.GPU_TIER),
        (b'{"success":"?"}', EngineChange.GPU_TIER),
        (b"{}", EngineChange.GPU_TIER),
        (b"done", EngineChange.GPU_TIER),
    ],
)
def test_a_reset_that_the_engine_denies_took_nothing(body, change):
    assert change_by("/reset_prefix_cache", "", body) is change


def held(pool):
    """Tokens of the prompt that each tier of the only endpoint is known to hold."""
    return {
        view.name: pool.index.tokens(view.index_view, pool.endpoint(1).slot) for view in pool.core.state.views
    }


def test_a_reset_of_the_gpu_tier_leaves_the_cpu_tier_its_size_and_the_incarnation():
    pool = Pool(n=1)
    first = pool.endpoint(1)
    sizes = EndpointMetrics(block_tokens=16, gpu_capacity_tokens=320)
    pool.core.upkeep.on_metrics(first.address, first.incarnation, sizes, 0.5)
    pool.serve(PROMPT, usage=usage(720))
    pool.core.upkeep.on_cache_lost(first.address, gpu_only=True)

    assert held(pool) == {"gpu": 0, "cpu": 720}
    assert pool.endpoint(1).incarnation == first.incarnation
    assert pool.core.upkeep.tick(2.0)
    pool.serve(PROMPT, 3.0, usage=usage(720))
    assert held(pool)["gpu"] == 320


def test_a_loss_of_all_tiers_ends_the_incarnation():
    pool = Pool(n=1)
    first = pool.endpoint(1)
    pool.serve(PROMPT, usage=usage(720))
    pool.core.upkeep.on_cache_lost(first.address, gpu_only=False)

    assert held(pool) == {"gpu": 0, "cpu": 0}
    assert pool.endpoint(1).incarnation != first.incarnation


@pytest.mark.parametrize("gpu_only", [True, False])
def test_a_loss_at_an_endpoint_that_is_gone_changes_nothing(gpu_only):
    pool = Pool(n=1)
    pool.serve(PROMPT, usage=usage(720))
    pool.core.upkeep.on_cache_lost("10.9.9.9:1", gpu_only=gpu_only)

    assert held(pool)["cpu"] == 720
