"""What sources report reaches table, health, index and ratios together."""

from epp.director.running import RunningRequests
from epp.endpoints.types import EndpointMetrics, ModelInfo
from tests.director.core import Pool, usage

PROMPT = "The quick brown fox jumps over the lazy dog. " * 64


def test_a_scrape_sizes_the_tiers():
    pool = Pool(n=1)
    endpoint = pool.endpoint(1)
    metrics = EndpointMetrics(block_tokens=32, gpu_capacity_tokens=320)
    pool.core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, metrics, 1.0)
    pool.serve(PROMPT, usage=usage(720))

    assert pool.index.tokens(0, endpoint.slot) <= 320
    assert pool.index.tokens(1, endpoint.slot) == 720


def test_a_restart_empties_the_endpoints_tiers_at_once():
    pool = Pool(n=1)
    endpoint = pool.endpoint(1)
    pool.core.upkeep.on_metrics(
        endpoint.address, endpoint.incarnation, EndpointMetrics(process_start=1.0), 1.0
    )
    pool.serve(PROMPT, usage=usage(720))
    pool.core.upkeep.on_metrics(
        endpoint.address, endpoint.incarnation, EndpointMetrics(process_start=2.0), 2.0
    )

    assert pool.endpoint(1).incarnation != endpoint.incarnation
    assert pool.send(PROMPT, 3.0)[0].matches["gpu"].segments == ()


def test_reports_about_an_incarnation_that_is_over_do_nothing():
    pool = Pool(n=1)
    old = pool.endpoint(1).incarnation - 1
    address = "10.0.0.1:8000"
    pool.core.upkeep.on_metrics(address, old, EndpointMetrics(waiting=9.0), 1.0)
    pool.core.upkeep.on_scrape_failure(address, old, refused=True, now=1.0)
    pool.core.upkeep.on_models(address, old, (ModelInfo("m"),), 1.0)

    assert pool.endpoint(1).metrics is None
    assert pool.endpoint(1).models is None


def test_refused_scrapes_eject_like_refused_requests():
    pool = Pool(n=2)
    endpoint = pool.endpoint(1)
    for now in (1.0, 2.0, 3.0):
        pool.core.upkeep.on_scrape_failure(endpoint.address, endpoint.incarnation, refused=True, now=now)

    assert pool.core.state.health.ejected(endpoint, 3.1) is not None


def test_scrapes_that_fail_otherwise_do_not_eject():
    pool = Pool(n=2)
    endpoint = pool.endpoint(1)
    for now in (1.0, 2.0, 3.0):
        pool.core.upkeep.on_scrape_failure(endpoint.address, endpoint.incarnation, refused=False, now=now)

    assert pool.core.state.health.ejected(endpoint, 3.1) is None


def test_tokenize_gives_the_first_ratio():
    pool = Pool(n=1)
    pool.core.upkeep.on_token_ratio("m", 3.0)

    assert pool.send(PROMPT)[0].prompt_tokens == 960


def test_an_answer_that_ends_after_a_restart_does_not_fill_the_new_cache():
    pool = Pool(n=1)
    endpoint = pool.endpoint(1)
    pool.core.upkeep.on_metrics(
        endpoint.address, endpoint.incarnation, EndpointMetrics(process_start=1.0), 1.0
    )
    exchange, _ = pool.send(PROMPT, 1.5)
    pool.core.upkeep.on_metrics(
        endpoint.address, endpoint.incarnation, EndpointMetrics(process_start=2.0), 2.0
    )
    while not pool.core.upkeep.tick(2.0):
        pass
    pool.answer(exchange, usage=usage(720), now=3.0)

    assert pool.index.blocks(0, endpoint.slot) == 0
    assert pool.ledger.requests[endpoint.slot] == 0


def test_running_requests_are_counted_by_label_and_forgotten_at_zero():
    running = RunningRequests()
    first = running.enter("alias", "m")
    second = running.enter("alias", "m")
    running.enter(None, "m")
    running.leave(first)

    assert running.counts() == {("alias", "m", "default-flow", 0): 1, ("m", "m", "default-flow", 0): 1}
    running.leave(second)
    assert running.counts() == {("m", "m", "default-flow", 0): 1}


def test_a_request_runs_from_its_pick_to_its_end():
    pool = Pool(n=1)
    exchange, _ = pool.send(PROMPT)

    assert pool.director.running.counts() == {("m", "m", "default-flow", 0): 1}
    pool.answer(exchange)
    assert pool.director.running.counts() == {}


def test_rendering_and_tokenizing_show_a_prompt_and_claim_nothing():
    pool = Pool(n=2)
    held = pool.serve(PROMPT, usage=usage(720)).target.address
    exchange = pool.open({"model": "m", "prompt": PROMPT}, path="/v1/completions/render", now=2.0)
    target = pool.director.pick(exchange, 2.0)
    other = pool.open({"model": "m", "prompt": "new " * 400}, path="/v1/completions/render", now=2.0)
    pool.director.pick(other, 2.0)
    pool.answer(other)

    assert target.address == held
    assert pool.index.size(0) == 45
