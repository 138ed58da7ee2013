"""Whether requests should be sent here, and if not, why."""

from epp.app.readiness import readiness
from epp.app.reload import ReloadReport
from epp.compose import CoreOptions, compose
from epp.config import load_config
from epp.config.builtin import builtin_config
from epp.discovery.discovery import SourceReport
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import EndpointMetrics

CONFIG = load_config(builtin_config(), "default.yaml")
A, B = "10.0.0.1:8000", "10.0.0.2:8000"


def pool(*addresses):
    core = compose(CONFIG, CoreOptions(seed=1))
    core.upkeep.sync_endpoints([parse_endpoint(f"http://{address}") for address in addresses], 0.0)
    return core


def states(core, now=1.0):
    return readiness(core, now, draining=False, failed={}).detail["endpoints"]


def test_endpoints_that_were_never_asked_count_as_ready():
    state = readiness(pool(A, B), 1.0, draining=False, failed={})

    assert (state.ready, state.reasons) == (True, ())
    assert state.detail == {
        "endpoints": {A: "ready", B: "ready"},
        "discovery": {},
        "config_hash": CONFIG.hash,
        "config_problems": {},
    }


def test_without_endpoints_it_is_not_ready():
    state = readiness(pool(), 1.0, draining=False, failed={})

    assert (state.ready, state.reasons) == (
        False,
        ("no endpoint is known; detail says what discovery found",),
    )


def test_the_detail_says_how_each_source_is_doing():
    sources = (
        SourceReport("file e.yaml", None, "e.yaml cannot be read: No such file or directory", 3),
        SourceReport("dns http://vllm:80", 0, None, 0),
    )

    without = readiness(pool(), 1.0, draining=False, failed={}, sources=sources)
    with_one = readiness(pool(A), 1.0, draining=False, failed={}, sources=sources)

    assert without.reasons == ("no endpoint is known; detail says what discovery found",)
    assert without.detail["discovery"] == with_one.detail["discovery"]
    assert with_one.ready
    assert with_one.detail["discovery"] == {
        "file e.yaml": {"endpoints": None, "problem": "e.yaml cannot be read: No such file or directory"},
        "dns http://vllm:80": {"endpoints": 0, "problem": None},
    }


def test_a_faulty_configuration_file_is_told_and_does_not_matter():
    reload = ReloadReport({"success": 1, "failure": 1}, {"c.yaml": "is faulty"})
    state = readiness(pool(A), 1.0, draining=False, failed={}, reload=reload)

    assert state.ready
    assert state.detail["config_problems"] == {"c.yaml": "is faulty"}


def test_a_drain_and_dead_tasks_are_reasons_whatever_the_endpoints_are():
    state = readiness(pool(A), 1.0, draining=True, failed={"upkeep": "KeyError"})

    assert (state.ready, state.reasons) == (
        False,
        ("shutting down", "background task upkeep died: KeyError"),
    )


def test_one_ready_endpoint_is_enough():
    core = pool(A, B)
    core.table.mark_draining(A)

    state = readiness(core, 1.0, draining=False, failed={})

    assert state.ready
    assert state.detail["endpoints"] == {A: "draining", B: "ready"}


def test_an_endpoint_that_sleeps_is_not_ready():
    core = pool(A)
    core.upkeep.on_metrics(A, core.table.pool.by_address[A].incarnation, EndpointMetrics(awake=False), 1.0)

    assert states(core) == {A: "asleep"}


def test_an_ejected_endpoint_tells_its_cause():
    core = pool(A)
    core.state.health.on_engine_down(core.table.pool.by_address[A], 1.0)

    assert states(core) == {A: "ejected: engine-down"}


def test_an_endpoint_that_never_answered_a_scrape_is_not_ready():
    core = pool(A)
    incarnation = core.table.pool.by_address[A].incarnation
    core.upkeep.on_scrape_failure(A, incarnation, refused=False, now=1.0)

    state = readiness(core, 1.0, draining=False, failed={})

    assert state.reasons == ("no endpoint is ready; detail says why for each",)
    assert state.detail["endpoints"] == {A: "unreachable: no scrape has succeeded"}


def test_an_endpoint_that_answered_before_stays_ready_when_a_scrape_fails():
    core = pool(A)
    incarnation = core.table.pool.by_address[A].incarnation
    core.upkeep.on_metrics(A, incarnation, EndpointMetrics(), 1.0)
    core.upkeep.on_scrape_failure(A, incarnation, refused=False, now=2.0)

    assert states(core, 2.0) == {A: "ready"}
