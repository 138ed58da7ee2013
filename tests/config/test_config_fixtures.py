"""Configurations as operators run them load unchanged and mean what they say."""

import pytest

from epp.config import EffectiveConfig, load_config
from epp.config.effective import parameter_values
from tests.config.config_texts import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "epp-configs"

SEED_VIEWS = {
    "approx-prefix-cache-producer": ("gpu", 256, 2048, True, 31_250),
    "cpu-prefix-cache-scorer": ("cpu", 256, 2048, False, 41_000),
}
ROUTER_09_VIEWS = {
    "approx-prefix-cache-producer": ("gpu", 256, 2048, True, 31_250),
    "cpuPrefixProducer": ("cpu", 256, 2048, False, 41_000),
}
SEED_READS = {
    "gpu-prefix-cache-scorer": "approx-prefix-cache-producer",
    "cpu-prefix-cache-scorer": "cpu-prefix-cache-scorer",
}
ROUTER_09_READS = {
    "gpu-prefix-cache-scorer": "approx-prefix-cache-producer",
    "cpu-prefix-cache-scorer": "cpuPrefixProducer",
}
NAMED_READS = {
    "gpu-prefix-cache-scorer": "gpu-prefix-cache-producer",
    "cpu-prefix-cache-scorer": "cpu-prefix-cache-producer",
    "no-hit-lru-scorer": None,
}
QUEUE_2211 = {
    "queue-scorer": 2.0,
    "kv-cache-utilization-scorer": 2.0,
    "gpu-prefix-cache-scorer": 1.0,
    "cpu-prefix-cache-scorer": 1.0,
}
FIVE_ONES = {
    "queue-scorer": 1.0,
    "kv-cache-utilization-scorer": 1.0,
    "gpu-prefix-cache-scorer": 1.0,
    "cpu-prefix-cache-scorer": 1.0,
    "no-hit-lru-scorer": 1.0,
}


def named_views(capacity_blocks, gpu_max_blocks=2048):
    return {
        "gpu-prefix-cache-producer": ("gpu", 256, gpu_max_blocks, True, 31_250),
        "cpu-prefix-cache-producer": ("cpu", 256, 2048, False, capacity_blocks),
    }


MEANINGS = {
    "a-seed-2025-11": (QUEUE_2211, SEED_VIEWS, SEED_READS),
    "b-2026-early": (
        {
            "active-request-scorer": 2.0,
            "kv-cache-utilization-scorer": 2.0,
            "gpu-prefix-cache-scorer": 1.0,
            "cpu-prefix-cache-scorer": 1.0,
        },
        SEED_VIEWS,
        SEED_READS,
    ),
    "b2-2026-05": (QUEUE_2211, SEED_VIEWS, SEED_READS),
    "c-router-0.9": (QUEUE_2211, ROUTER_09_VIEWS, ROUTER_09_READS),
    "c2-2026-06": (FIVE_ONES, named_views(41_000, gpu_max_blocks=625), NAMED_READS),
    "d-newest-2026-08": (FIVE_ONES, named_views(82_000), NAMED_READS),
    "e1-tpu-multi-host": (FIVE_ONES, named_views(82_000), NAMED_READS),
    "e2-qwen3-coder": (FIVE_ONES, named_views(10_000), NAMED_READS),
    "f-mooncake": (
        {
            "prefix-cache-scorer": 1.0,
            "queue-scorer": 1.0,
            "kv-cache-utilization-scorer": 1.0,
            "no-hit-lru-scorer": 1.0,
        },
        {"prefix-cache-producer": ("gpu", 256, 2048, False, 41_000)},
        {"prefix-cache-scorer": "prefix-cache-producer", "no-hit-lru-scorer": None},
    ),
    "go-default": (
        {"queue-scorer": 2.0, "kv-cache-utilization-scorer": 2.0, "prefix-cache-scorer": 3.0},
        {"approx-prefix-cache-producer": ("gpu", 256, 2048, True, 31_250)},
        {"prefix-cache-scorer": "approx-prefix-cache-producer"},
    ),
    "t-known-config-test": (
        QUEUE_2211,
        ROUTER_09_VIEWS | {"cpuPrefixProducer": ("cpu", 256, 2048, False, 1_000)},
        ROUTER_09_READS,
    ),
}


def load(name: str) -> EffectiveConfig:
    path = FIXTURES / f"{name}.yaml"
    return load_config(path.read_text(), path.name)


def test_every_fixture_has_a_meaning_here():
    assert {path.stem for path in FIXTURES.glob("*.yaml")} == MEANINGS.keys()


@pytest.mark.parametrize("name", MEANINGS)
def test_a_fixture_has_one_profile_with_its_weights(name):
    (profile,) = load(name).profiles

    assert profile.name == "default"
    assert {scorer.name: scorer.weight for scorer in profile.scorers} == MEANINGS[name][0]
    assert profile.filters == ()


@pytest.mark.parametrize("name", MEANINGS)
def test_a_fixture_has_its_views_with_tier_block_cap_and_capacity(name):
    views = {
        view.producer: (view.tier, view.block_bytes, view.max_blocks, view.auto_tune, view.capacity_blocks)
        for view in load(name).views
    }

    assert views == MEANINGS[name][1]


@pytest.mark.parametrize("name", MEANINGS)
def test_each_scorer_of_a_fixture_reads_its_producer(name):
    values = {plugin.name: parameter_values(plugin.parameters) for plugin in load(name).plugins}
    reads = {
        plugin: parameters["prefixMatchInfoProducerName"]
        for plugin, parameters in values.items()
        if "prefixMatchInfoProducerName" in parameters
    }

    assert reads == MEANINGS[name][2]


@pytest.mark.parametrize("name", MEANINGS)
def test_picker_handler_and_detector_of_a_fixture_are_implied(name):
    config = load(name)
    origins = {plugin.name: plugin.origin for plugin in config.plugins if plugin.origin.startswith("implied")}

    assert origins == {
        "max-score-picker": "implied: no picker is declared",
        "single-profile-handler": "implied: no profile handler is declared",
        "utilization-detector": "implied: no saturation detector is named",
    }
    assert config.profiles[0].picker == "max-score-picker"
    assert config.handler == "single-profile-handler"
    assert config.detector == "utilization-detector"


@pytest.mark.parametrize("name", MEANINGS)
def test_a_fixture_loads_without_a_warning_or_a_note(name):
    config = load(name)

    assert config.warnings == ()
    assert config.notes == ()


def test_integer_and_float_weights_make_the_same_configuration():
    assert load("a-seed-2025-11").hash == load("b2-2026-05").hash


def test_the_api_version_changes_nothing():
    assert load("d-newest-2026-08").hash == load("e1-tpu-multi-host").hash
