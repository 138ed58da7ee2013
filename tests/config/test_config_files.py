"""The files under config/: the valid ones mean what their comments say, each invalid one gets its message."""

import pytest

from epp.config import builtin_config, load_config
from epp.errors import ConfigError
from tests.config.config_texts import ROOT

CONFIG = ROOT / "config"
INVALID = sorted(path.name for path in (CONFIG / "invalid").glob("*.yaml"))
EXPECT = "# expect: "


def meaning_of(name):
    config = load_config((CONFIG / name).read_text(), name)
    (profile,) = config.profiles
    weights = {scorer.name: scorer.weight for scorer in profile.scorers}
    views = {view.producer: (view.tier, view.auto_tune, view.capacity_blocks) for view in config.views}
    assert config.warnings == config.notes == ()
    return config, weights, views


def test_the_default_weighs_load_twice_against_both_tiers():
    config, weights, views = meaning_of("default.yaml")

    assert weights == {
        "active-request-scorer": 2.0,
        "kv-cache-utilization-scorer": 2.0,
        "gpu-prefix-cache-scorer": 1.0,
        "cpu-prefix-cache-scorer": 1.0,
    }
    assert views == {
        "gpu-prefix-cache-producer": ("gpu", True, 31_250),
        "cpu-prefix-cache-producer": ("cpu", True, 25_600),
    }
    assert config.plugins[0].parameters.idle_threshold == 8


def test_the_package_carries_the_default():
    assert builtin_config() == (CONFIG / "default.yaml").read_text()


def test_the_guides_configuration_is_2_2_1_1():
    _, weights, views = meaning_of("tiered-prefix-cpu.yaml")

    assert weights == {
        "queue-scorer": 2.0,
        "kv-cache-utilization-scorer": 2.0,
        "gpu-prefix-cache-scorer": 1.0,
        "cpu-prefix-cache-scorer": 1.0,
    }
    assert views == {
        "approx-prefix-cache-producer": ("gpu", True, 31_250),
        "cpu-prefix-cache-scorer": ("cpu", False, 41_000),
    }


def test_the_guides_configuration_equals_the_fixture_of_2025():
    fixture = (ROOT / "tests" / "fixtures" / "epp-configs" / "a-seed-2025-11.yaml").read_text()

    assert load_config((CONFIG / "tiered-prefix-cpu.yaml").read_text()).hash == load_config(fixture).hash


def test_without_prefix_there_is_no_view():
    _, weights, views = meaning_of("no-prefix.yaml")

    assert weights == {"active-request-scorer": 2.0, "queue-scorer": 2.0, "kv-cache-utilization-scorer": 2.0}
    assert views == {}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_file_gets_exactly_the_problems_it_expects(name):
    text = (CONFIG / "invalid" / name).read_text()
    expected = [line.removeprefix(EXPECT) for line in text.splitlines() if line.startswith(EXPECT)]

    with pytest.raises(ConfigError) as raised:
        load_config(text, name)

    found = [str(problem) for problem in raised.value.problems]
    assert len(found) == len(expected) > 0
    for line, wanted in zip(found, expected, strict=True):
        if wanted.endswith("…"):  # a list of all plugin types follows
            assert line.startswith(wanted.removesuffix("…"))
        else:
            assert line == wanted


def test_the_invalid_files_cover_every_rule_of_the_loader():
    assert {name.removesuffix(".yaml") for name in INVALID} >= {
        "plugin-without-type", "unknown-type", "duplicate-plugin-name", "profile-without-name",
        "duplicate-profile", "entry-without-reference", "undefined-reference", "two-pickers",
        "parameter-of-wrong-type", "unknown-keys", "producer-cycle", "feature-gates", "several-profiles",
        "sizes", "weights", "scalars", "duplicate-key", "flow-control", "impossible-cap",
    }  # fmt: skip
