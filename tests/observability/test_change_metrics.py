"""Discovery, reloads and the shadow on the metrics page."""

from epp.director.shadow import ShadowTally
from epp.director.views import Tier
from epp.observability.change_metrics import ReloadState, ShadowState, SourceState, StateKept
from tests.observability.builders import CPU, GPU, World


def test_sources_are_shown_with_what_they_know_and_how_they_are():
    states = [SourceState("endpoint", 2, 0, ok=True), SourceState("dns http://x:80", None, 3, ok=False)]
    world = World(changes={"sources": lambda: states})

    assert world.samples("epp_discovery_endpoints") == {'source="endpoint"': 2.0}
    assert world.samples("epp_discovery_last_look_success") == {
        'source="endpoint"': 1.0, 'source="dns http://x:80"': 0.0,
    }  # fmt: skip
    assert world.samples("epp_discovery_failures_total") == {
        'source="endpoint"': 0.0, 'source="dns http://x:80"': 3.0,
    }  # fmt: skip


def test_reloads_are_counted_by_result():
    world = World(changes={"reload": lambda: ReloadState({"success": 3, "failure": 1}, ok=False)})

    assert world.samples("epp_config_reloads_total") == {'result="success"': 3.0, 'result="failure"': 1.0}
    assert world.samples("epp_config_last_reload_success") == {"": 0.0}


def test_the_configuration_is_the_one_in_effect_when_the_page_is_made():
    hashes = iter(["one", "two"])
    world = World(changes={"config_hash": lambda: next(hashes)})

    assert world.samples("epp_config_info") == {'hash="one"': 1.0}
    assert world.samples("epp_config_info") == {'hash="two"': 1.0}


def test_the_shadow_is_shown_by_verdict_and_tier():
    tally = ShadowTally(seconds=0.25)
    tally.requests |= {"same": 7, "other": 2, "none": 1}
    tally.hit_tokens |= {("shadow", Tier.GPU): 640, ("live", Tier.GPU): 320, ("live", Tier.CPU): 0}
    world = World(changes={"shadow": lambda: ShadowState("s4dow", tally)})

    assert world.samples("epp_shadow_config_info") == {'hash="s4dow"': 1.0}
    assert world.samples("epp_shadow_requests_total") == {
        'verdict="same"': 7.0, 'verdict="other"': 2.0, 'verdict="none"': 1.0, 'verdict="error"': 0.0,
    }  # fmt: skip
    assert world.samples("epp_shadow_predicted_hit_tokens_total") == {
        'pick="shadow",tier="gpu"': 640.0, 'pick="live",tier="gpu"': 320.0, 'pick="live",tier="cpu"': 0.0,
    }  # fmt: skip
    assert world.samples("epp_shadow_seconds_total") == {"": 0.25}


def test_without_a_shadow_there_are_no_samples_of_it():
    page = World().page()

    assert not [line for line in page.splitlines() if line.startswith("epp_shadow")]


def test_hits_of_views_that_stay_go_on_and_of_others_begin_anew():
    world = World()
    world.observe(world.record())
    assert sum(world.samples("llm_d_epp_prefix_indexer_hit_ratio_count").values()) == 2
    world.metrics.use_views([GPU])
    world.observe(world.record())
    assert list(world.samples("llm_d_epp_prefix_indexer_hit_ratio_count").values()) == [2.0]
    world.metrics.use_views([GPU, CPU])

    assert sorted(world.samples("llm_d_epp_prefix_indexer_hit_ratio_count").values()) == [0.0, 2.0]


def test_what_was_taken_over_and_what_is_kept_is_shown():
    loads = {"used": 1, "absent": 0, "refused": 0}
    kept = StateKept(120, 7.5, loads, {"ok": 2, "failed": 1}, saved_at=1_700_000_000.0, size=4096)
    world = World(changes={"state": lambda: kept})

    assert world.samples("epp_state_loaded_entries") == {"": 120.0}
    assert world.samples("epp_state_loaded_age_seconds") == {"": 7.5}
    assert world.samples("epp_state_loads_total") == {
        'result="used"': 1.0, 'result="absent"': 0.0, 'result="refused"': 0.0,
    }  # fmt: skip
    assert world.samples("epp_state_saves_total") == {'result="ok"': 2.0, 'result="failed"': 1.0}
    assert world.samples("epp_state_last_save_timestamp_seconds") == {"": 1_700_000_000.0}
    assert world.samples("epp_state_bytes") == {"": 4096.0}


def test_what_was_neither_taken_over_nor_saved_has_no_age_and_no_size():
    kept = StateKept(0, None, {"used": 0}, {"ok": 0}, saved_at=None, size=0)
    page = World(changes={"state": lambda: kept}).page()

    assert "epp_state_loaded_entries 0" in page
    for name in ("epp_state_loaded_age_seconds", "epp_state_last_save_timestamp_seconds", "epp_state_bytes"):
        assert not [line for line in page.splitlines() if line.startswith(name)]


def test_without_a_directory_there_are_no_samples_of_a_state():
    page = World().page()

    assert not [line for line in page.splitlines() if line.startswith("epp_state")]
