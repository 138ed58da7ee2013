"""Conservation, determinism, and that the shipped router is what decides."""

import pytest

from epp.simulate.fleet import Offload
from epp.simulate.outcome import summarise
from epp.simulate.policies import load_policy
from epp.simulate.runner import Simulation, simulate
from tests.simulate.kit import fleet, shared_prefix

TIERS = list(Offload)


def finished(offload, **fields):
    simulation = Simulation(fleet(offload, **fields), load_policy("default"), shared_prefix(), seed=3)
    return simulation, simulation.run()


@pytest.mark.parametrize("offload", TIERS)
def test_every_request_ends_once_and_nothing_is_left_behind(offload):
    simulation, outcome = finished(offload)

    assert sorted(row.number for row in outcome.rows) == list(range(60))
    assert sum(simulation.router.core.state.ledger.requests) == 0
    assert sum(simulation.router.core.state.ledger.tokens) == 0
    simulation.router.core.state.index.check_integrity()
    for server in simulation.servers.values():
        server.engine.check_integrity()
        assert server.engine.live_requests == 0
        assert server.engine.gauges().kv_usage == 0.0


@pytest.mark.parametrize("offload", TIERS)
def test_hits_are_at_most_what_an_infinite_cache_would_give(offload):
    """Each of 18 prompts is computed at least once, and of a repeat at least one token."""
    _, outcome = finished(offload)
    prompt = 2_100

    for row in outcome.rows:
        assert row.gpu_hit_tokens + row.cpu_hit_tokens < row.prompt_tokens == prompt
    hits = sum(row.gpu_hit_tokens + row.cpu_hit_tokens for row in outcome.rows)
    assert 0 < hits <= 60 * prompt - 6 * 2_000 - 18 * 100


def test_requests_in_flight_are_rate_times_time_in_the_system():
    """Little's law: 12 clients, so rate x mean time is 12, but for the start, the end and the clients' pauses."""
    workload = shared_prefix(requests=600)
    outcome = simulate(fleet(Offload.NATIVE), load_policy("default"), workload, seed=1)
    summary = summarise(outcome)

    assert summary.requests / summary.duration_s * summary.e2e.mean == pytest.approx(12, rel=0.02)


def test_the_same_seed_gives_the_same_rows():
    rows = [finished(Offload.NATIVE)[1].rows for _ in range(2)]

    assert rows[0] == rows[1]


def test_times_are_in_order():
    for row in finished(Offload.NATIVE)[1].rows:
        assert row.arrival_s < row.first_token_s < row.end_s
        assert row.ttft_s > 0.030  # HTTP and tokenising


@pytest.mark.parametrize("offload", [Offload.NATIVE, Offload.LMCACHE_LOCAL, Offload.LMCACHE_SHARED])
def test_a_cpu_tier_computes_less_under_memory_pressure(offload):
    def run(tier):
        workload = shared_prefix(requests=120, num_groups=20)
        return summarise(simulate(fleet(tier, gpu_tokens=9_600), load_policy("default"), workload, seed=1))

    none, tier = run(Offload.NONE), run(offload)

    assert none.cpu_hit_share == 0.0
    assert tier.cpu_hit_share > 0.2
    assert tier.gpu_hit_share + tier.cpu_hit_share > none.gpu_hit_share


def test_prefix_aware_routing_hits_more_than_random_routing():
    aware = summarise(simulate(fleet(), load_policy("llm-d-baseline"), shared_prefix(300), seed=1))
    least = summarise(simulate(fleet(), load_policy("least-in-flight"), shared_prefix(300), seed=1))

    assert aware.gpu_hit_share > 1.2 * least.gpu_hit_share


def test_the_router_predicts_the_hits_of_a_fleet_without_pressure():
    """What the index says a server holds is what the server, with hashing of its own, finds."""
    _, outcome = finished(Offload.NONE, gpu_tokens=640_000)
    predicted = sum(row.predicted_gpu_tokens for row in outcome.rows)
    found = sum(row.gpu_hit_tokens for row in outcome.rows)

    assert predicted == pytest.approx(found, rel=0.05)


def test_progress_counts_to_the_end():
    told = []
    simulate(
        fleet(), load_policy("default"), shared_prefix(20), seed=1, progress=lambda *done: told.append(done)
    )

    assert told == [(n, 20) for n in range(1, 21)]


def test_an_idle_endpoint_stays_fresh():
    """One request at a time on three servers: those without requests are scraped all the same."""
    simulation = Simulation(fleet(), load_policy("default"), shared_prefix(30, output_len=900), seed=1)
    simulation.run()

    assert all(endpoint.fresh for endpoint in simulation.router.core.table.pool.endpoints)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"engines": 0}, "engines must be at least 1, got 0"),
        ({"gpu_tokens": 10}, "gpu_tokens must be at least 64, got 10"),
        (
            {"offload": Offload.NATIVE, "cpu_tokens": 0},
            "offload native needs cpu_tokens of at least 64, got 0",
        ),
        ({"scrape_s": 0}, "scrape_s must be positive, got 0"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        fleet(**fields)
