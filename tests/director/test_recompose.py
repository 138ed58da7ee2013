"""Another configuration takes effect between two requests, and nothing of value is lost."""

import json

import pytest

from epp.compose import CoreOptions, recompose
from epp.config.catalog import default_registry
from epp.config.load import load_config
from epp.director.pick import pick_now
from epp.director.receipts import receipt, receipt_line
from epp.director.snapshot import read_state, state_slices
from epp.director.types import EndReason, Failure, FailureKind, RequestHead
from epp.endpoints.types import EndpointMetrics
from epp.errors import ConfigError, ConfigProblem, SaturatedError
from epp.flow.admission import Objective
from epp.scheduling.registry import NoParameters, PluginKind, PluginType, Registry
from tests.director.core import TIERED, Pool, usage

PROMPT = "The quick brown fox jumps over the lazy dog. " * 64  # 45 blocks of 64 bytes
OTHER = "Pack my box with five dozen liquor jugs, said the other one. " * 48
LOAD_FIRST = TIERED.replace("pluginRef: queue-scorer, weight: 2", "pluginRef: queue-scorer, weight: 20")
SMALL = TIERED.replace("lruCapacityPerServer: 1000", "lruCapacityPerServer: 20")
WIDE = TIERED.replace("blockSize: 64", "blockSize: 128")
NONE = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: queue-scorer}]
"""
THREE = TIERED.replace(
    "- {type: prefix-cache-scorer, name: gpu-scorer",
    "- {type: approx-prefix-cache-producer, name: third, parameters: {blockSize: 64, tier: gpu}}\n"
    "- {type: prefix-cache-scorer, name: third-scorer, parameters: {prefixMatchInfoProducerName: third}}\n"
    "- {type: prefix-cache-scorer, name: gpu-scorer",
)


def config(text):
    return load_config(text, "changed")


def change(pool, text, **options):
    """Drive a change to its end; the number of steps it paused."""
    steps = recompose(pool.core, config(text), **options)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            pool.core = done.value
            return count
        count += 1


def request(prompt):
    return RequestHead("", "POST", "/v1/completions"), json.dumps({"model": "m", "prompt": prompt}).encode()


def sweep(pool):
    while not pool.core.upkeep.tick(2.0):
        pass
    pool.index.check_integrity()


def held(pool, prompt=PROMPT):
    """Blocks of the prompt that each view finds, by name, at any endpoint."""
    exchange, _ = pool.send(prompt, 5.0)
    found = {name: sum(blocks for _, blocks in match.segments) for name, match in exchange.matches.items()}
    pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, 5.0)
    return found


def test_g10_views_that_stay_keep_what_they_hold():
    pool = Pool()
    warm = pool.serve(PROMPT, usage=usage(720)).target.address
    steps = change(pool, LOAD_FIRST)

    assert steps == 0
    assert held(pool) == {"gpu": 45, "cpu": 45}
    assert pool.send(PROMPT, 6.0)[1].address == warm
    assert pool.core.config.source == "changed"


def test_another_weight_decides_from_the_next_request_on():
    pool = Pool(n=2, config=TIERED.replace("queue-scorer, weight: 2", "queue-scorer, weight: 1"))
    warm = pool.serve(PROMPT, usage=usage(720)).target.address
    for i in (1, 2):
        endpoint = pool.endpoint(i)
        waiting = 1.0 if endpoint.address == warm else 0.0
        pool.core.upkeep.on_metrics(
            endpoint.address, endpoint.incarnation, EndpointMetrics(waiting=waiting, kv_usage=0.5), 1.0
        )
    before = pick_now(pool.director, *request(PROMPT), 2.0, commit=False)
    change(pool, LOAD_FIRST)
    after = pick_now(pool.director, *request(PROMPT), 2.0, commit=False)

    assert (before.endpoints[0] == warm, after.endpoints[0] == warm) == (True, False)


def test_a_capacity_may_change_and_what_no_longer_fits_goes():
    pool = Pool(n=1)
    pool.serve(PROMPT, usage=usage(720))
    change(pool, SMALL)
    sweep(pool)

    assert pool.index.tokens(0, 0) == 720
    assert pool.index.tokens(1, 0) <= 20 * 16


def test_views_of_another_block_size_start_empty_and_the_old_ones_leave_the_memory():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720))
    steps = change(pool, WIDE)
    sweep(pool)

    assert steps == 256
    assert held(pool) == {"gpu": 0, "cpu": 0}
    assert pool.index.nodes() == 0
    pool.serve(PROMPT, usage=usage(720))
    assert held(pool) == {"gpu": 22, "cpu": 22}


def test_a_view_of_another_tier_starts_empty():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720))
    change(pool, TIERED.replace("autoTune: false", "tier: gpu, autoTune: false"))

    assert held(pool) == {"gpu": 45, "cpu": 0}


def test_a_view_that_is_added_starts_empty_beside_those_that_stay():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720))
    change(pool, THREE)

    assert held(pool) == {"gpu": 45, "cpu": 45, "third": 0}


def test_views_may_all_go_and_come_back_empty():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720))
    change(pool, NONE)
    sweep(pool)
    assert held(pool) == {}
    assert pool.index.nodes() == 0
    assert change(pool, TIERED) == 0

    assert held(pool) == {"gpu": 0, "cpu": 0}


def test_there_and_back_again_needs_room_only_once():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720))
    steps = []
    for text in (WIDE, TIERED, WIDE, TIERED):
        steps.append(change(pool, text))
        sweep(pool)
        pool.serve(PROMPT, usage=usage(720))

    assert steps == [256, 0, 0, 0]


def test_requests_are_served_between_the_steps_of_a_change():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720))
    steps = recompose(pool.core, config(WIDE))
    for n, _ in enumerate(steps):
        if n % 64 == 0:
            exchange = pool.serve(f"{n} {OTHER}", 2.0, usage=usage(720))
            assert exchange.matches["gpu"].total_blocks == 45
            pool.index.check_integrity()

    assert held(pool, f"64 {OTHER}") == {"gpu": 0, "cpu": 0}


@pytest.mark.parametrize(
    "text", [LOAD_FIRST, SMALL, WIDE, THREE, NONE], ids=["weight", "size", "block", "third", "none"]
)
def test_requests_under_way_end_as_they_began(text):
    pool = Pool()
    prepared = pool.open({"model": "m", "prompt": PROMPT})
    picked, target = pool.send(PROMPT)
    failing, failed = pool.send(OTHER)
    change(pool, text)

    assert (pool.director.pick(prepared, 2.0).address == target.address) is (text not in (WIDE, NONE))
    again = pool.director.next_after_failure(failing, Failure(FailureKind.CONNECT), 2.0)
    assert again.address != failed.address
    for exchange in (prepared, picked, failing):
        assert set(exchange.predicted) == {"gpu", "cpu"}
        assert receipt(exchange, exchange.hold.endpoint)["picked"] == exchange.target.address
        assert receipt_line(exchange).startswith(exchange.target.address)
        pool.answer(exchange, usage=usage(720), now=3.0)
    sweep(pool)
    assert pool.ledger.requests[:3] == [0, 0, 0]
    assert pool.ledger.tokens[:3] == [0, 0, 0]
    assert [record.predicted_gpu_tokens is not None for record in pool.records] == [True] * 3
    assert [[view.block_bytes for view in record.views] for record in pool.records] == [[64, 64]] * 3


def test_a_request_from_before_leaves_nothing_in_views_that_came_after():
    pool = Pool(n=1)
    exchange, _ = pool.send(PROMPT)
    change(pool, WIDE)
    sweep(pool)
    pool.answer(exchange, usage=usage(720))
    sweep(pool)

    assert [pool.index.size(view.index_view) for view in pool.core.state.views] == [0, 0]
    assert pool.index.nodes() == 0


def test_a_request_from_before_counts_in_views_that_stay():
    pool = Pool(n=1)
    exchange, _ = pool.send(PROMPT)
    change(pool, LOAD_FIRST)
    pool.answer(exchange, usage=usage(720))

    assert held(pool) == {"gpu": 45, "cpu": 45}


def test_table_ledger_health_catalogue_and_ratios_go_on():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(960))
    old = pool.core.state
    change(pool, WIDE)
    new = pool.core.state

    for part in ("table", "ledger", "health", "catalog", "ratios", "slow_start", "index"):
        assert getattr(new, part) is getattr(old, part)
    assert new.ratios.models() == {"m": 3.0}


def test_a_scheduler_that_decides_as_before_stays_with_its_memory():
    pool = Pool()
    scheduler = pool.core.state.scheduler
    change(pool, f"# A comment.\n{TIERED}")
    assert pool.core.state.scheduler is scheduler
    assert pool.core.config.source == "changed"
    change(pool, LOAD_FIRST)

    assert pool.core.state.scheduler is not scheduler


def test_scrapes_size_the_new_views():
    pool = Pool(n=1)
    change(pool, WIDE)
    endpoint = pool.endpoint(1)
    metrics = EndpointMetrics(block_tokens=32, gpu_capacity_tokens=320)
    pool.core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, metrics, 1.0)
    pool.serve(PROMPT, usage=usage(720))
    gpu, cpu = pool.core.state.views

    assert pool.index.tokens(gpu.index_view, 0) <= 320
    assert (
        pool.index.tokens(cpu.index_view, 0) == 704
    )  # 22 blocks of 32 tokens; the tail fills no engine block


def test_what_is_known_of_sizes_holds_for_the_new_views_at_once():
    pool = Pool(n=1)
    endpoint = pool.endpoint(1)
    metrics = EndpointMetrics(block_tokens=16, gpu_capacity_tokens=320)
    pool.core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, metrics, 1.0)
    change(pool, WIDE)
    pool.serve(PROMPT, usage=usage(720))

    assert pool.index.tokens(pool.core.state.views[0].index_view, 0) <= 320


def test_a_restart_empties_the_new_views_too():
    pool = Pool(n=1)
    change(pool, WIDE)
    pool.serve(PROMPT, usage=usage(720))
    pool.core.table.end_incarnation("10.0.0.1:8000")

    assert held(pool) == {"gpu": 0, "cpu": 0}


def test_a_snapshot_names_the_views_in_effect():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720))
    change(pool, THREE)
    state = read_state(b"".join(state_slices(pool.core.state, 2.0, with_index=True)))

    assert state.index.views == ["gpu", "cpu", "third"]
    assert {held.view for held in state.index.held} == {"gpu", "cpu"}


def test_g10_a_plugin_that_cannot_be_built_changes_nothing():
    def build(name, parameters, context):
        raise ConfigError([ConfigProblem(name, "cannot be built")])

    fails = PluginType("failing-scorer", PluginKind.SCORER, NoParameters, build, "Fails.")
    registry = Registry([*default_registry().types(), fails])
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720))
    state = pool.core.state
    text = WIDE.replace("- type: queue-scorer", "- type: failing-scorer\n- type: queue-scorer")
    steps = recompose(pool.core, load_config(text, "changed", registry), registry=registry)

    with pytest.raises(ConfigError, match="cannot be built"):
        next(steps)
    assert pool.core.state is state
    assert held(pool) == {"gpu": 45, "cpu": 45}


def with_depth(depth):
    return f"{TIERED}saturationDetector: {{queueDepthThreshold: {depth}}}\n"


def test_another_saturation_detector_lets_in_from_the_next_request_on():
    headers = {"x-llm-d-inference-objective": "batch"}
    options = CoreOptions(seed=7, timer=lambda: 0.0, objectives=(Objective("batch", -1),))
    pool = Pool(n=1, config=with_depth(2), options=options)
    endpoint = pool.endpoint(1)
    pool.core.upkeep.on_metrics(
        endpoint.address, endpoint.incarnation, EndpointMetrics(waiting=4.0, kv_usage=0.1), 1.0
    )
    before = pool.open({"model": "m", "prompt": PROMPT}, headers=headers)
    change(pool, with_depth(50))
    after = pool.open({"model": "m", "prompt": PROMPT}, headers=headers)

    assert pool.director.pick(after, 1.0).address == endpoint.address
    with pytest.raises(SaturatedError):
        pool.director.pick(before, 1.0)


def test_admission_stays_where_the_configuration_decides_as_before():
    pool = Pool()
    old = pool.core.state
    change(pool, f"# A comment.\n{TIERED}")

    assert pool.core.state.admission is old.admission
    assert pool.core.state.candidates is old.candidates
