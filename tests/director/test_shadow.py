"""A second configuration decides beside the first, is compared, and never obeyed."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epp.compose import CoreOptions, compose, recompose
from epp.config.catalog import default_registry
from epp.config.load import load_config
from epp.director.pick import pick_now
from epp.director.types import EndReason, Failure, FailureKind, RequestHead
from epp.director.views import Tier
from epp.endpoints.types import EndpointMetrics
from epp.errors import SaturatedError
from epp.scheduling.registry import NoParameters, PluginKind, PluginType, Registry
from tests.director.core import TIERED, Pool, usage

PROMPT = "The quick brown fox jumps over the lazy dog. " * 64  # 45 blocks of 64 bytes, 22 of 128
QUEUE_ONLY = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: queue-scorer}]
"""
WIDE = TIERED.replace("blockSize: 64", "blockSize: 128")
TINY_BLOCKS = TIERED.replace("blockSize: 64", "blockSize: 16")


class Odd:
    """A scorer or a filter that does what a test wants."""

    volatility = "request"
    type = "odd"

    def __init__(self, name, error):
        self.name, self.error = name, error

    def score(self, cycle):
        raise self.error

    filter = score


def odd_registry(kind, error):
    odd = PluginType("odd", kind, NoParameters, lambda name, *_: Odd(name, error), "Odd.")
    return Registry([*default_registry().types(), odd])


class ShadowPool(Pool):
    """A pool whose core has a shadow; `failures` are what it raised."""

    def __init__(self, shadow, n=3, config=TIERED, registry=None, seconds=()):
        self.shadow_text, self.registry, self.failures = shadow, registry, []
        ticks = iter(seconds)
        options = CoreOptions(seed=7, timer=lambda: next(ticks, 0.0), shadow_failed=self.failures.append)
        super().__init__(n, config, options)

    def __post_init__(self):
        super().__post_init__()
        shadow = self.shadow_text and load_config(self.shadow_text, "shadow", self.registry)
        self.core = compose(
            load_config(self.config, "test", self.registry),
            self.options,
            shadow=shadow,
            observers=[self.records.append],
            registry=self.registry,
        )
        self.director = self.core.director
        self.ledger, self.index = self.core.state.ledger, self.core.state.index
        self.core.upkeep.sync_endpoints(self.specs, 0.0)

    @property
    def verdicts(self):
        return {verdict: n for verdict, n in self.core.shadow_tally.requests.items() if n}

    def report(self, i, **metrics):
        endpoint = self.endpoint(i)
        self.core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, EndpointMetrics(**metrics), 1.0)


def test_the_same_configuration_agrees_always():
    pool = ShadowPool(TIERED)
    for n in range(20):
        pool.serve(f"{n % 3} {PROMPT}", float(n), usage=usage(720))

    assert pool.verdicts == {"same": 20}
    hits = pool.core.shadow_tally.hit_tokens
    assert hits["shadow", Tier.GPU] == hits["live", Tier.GPU] > 0


def test_a_shadow_that_would_go_where_the_prefix_is_disagrees_and_says_by_how_much():
    prefix_first = TIERED.replace("gpu-scorer, weight: 1", "gpu-scorer, weight: 9")
    pool = ShadowPool(prefix_first, config=QUEUE_ONLY, n=2)
    warm = pool.serve(PROMPT, usage=usage(720)).target.address
    for i in (1, 2):
        pool.report(i, waiting=1.0 if pool.endpoint(i).address == warm else 0.0, kv_usage=0.5)
    _, target = pool.send(PROMPT, 2.0)

    assert target.address != warm
    assert pool.verdicts == {"same": 1, "other": 1}
    assert pool.core.shadow_tally.hit_tokens == {
        ("shadow", Tier.GPU): 704, ("shadow", Tier.CPU): 0, ("live", Tier.GPU): 0, ("live", Tier.CPU): 0,
    }  # fmt: skip


def test_its_views_record_where_requests_really_went():
    pool = ShadowPool(WIDE, config=QUEUE_ONLY)
    slot = pool.serve(PROMPT, usage=usage(720)).target.slot
    state = pool.core.state

    assert state.views == ()
    assert [pool.index.blocks(view.index_view, slot) for view in state.shadow.views] == [22, 22]


def test_its_blocks_are_hashed_beside_the_live_ones_and_neither_sees_the_other():
    pool = ShadowPool(WIDE)
    exchange = pool.serve(PROMPT, usage=usage(720))

    assert {size: len(chains[0]) for size, chains in exchange.chains.by_block_bytes.items()} == {
        64: 45,
        128: 22,
    }
    assert set(exchange.matches) == {"gpu", "cpu"}
    assert exchange.matches["gpu"].total_blocks == 45


def test_a_failed_execution_leaves_nothing_in_its_views():
    pool = ShadowPool(WIDE, n=2)
    exchange, _failed = pool.send(PROMPT)
    pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT), 1.5)
    pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, 1.6)

    assert [pool.index.size(view.index_view) for view in pool.core.state.shadow.views] == [0, 0]
    assert pool.verdicts == {"same": 1}


def test_a_restart_empties_its_views_and_a_scrape_sizes_them():
    pool = ShadowPool(WIDE, n=1)
    pool.report(1, block_tokens=16, gpu_capacity_tokens=320)
    pool.serve(PROMPT, usage=usage(720))
    gpu = pool.core.state.shadow.views[0].index_view
    assert 0 < pool.index.tokens(gpu, 0) <= 320
    pool.core.table.end_incarnation("10.0.0.1:8000")

    assert pool.index.tokens(gpu, 0) == 0


def test_a_prompt_that_is_shorter_than_a_live_block_learns_no_family_from_the_shadow():
    pool, alone = ShadowPool(TINY_BLOCKS), ShadowPool(None)
    short = "Hello, how are you? "
    for each in (pool, alone):
        each.serve(short, usage=usage(4))
        each.serve(short * 3, usage=usage(30))

    assert pool.serve(short).chains.family is None
    assert pool.core.state.ratios.bytes_per_token("m", None) == alone.core.state.ratios.bytes_per_token(
        "m", None
    )


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), RecursionError(), KeyError("x")])
def test_whatever_it_raises_is_counted_and_told_and_the_request_goes_on(error):
    registry = odd_registry(PluginKind.SCORER, error)
    pool = ShadowPool(QUEUE_ONLY.replace("queue-scorer", "odd"), registry=registry)
    exchange = pool.serve(PROMPT, usage=usage(720))

    assert exchange.status == 200
    assert pool.verdicts == {"error": 1}
    assert pool.failures == [error]


def test_a_shadow_that_would_refuse_the_request_is_counted_so():
    registry = odd_registry(PluginKind.FILTER, SaturatedError("full"))
    pool = ShadowPool(
        QUEUE_ONLY.replace("{type: queue-scorer}", "{type: queue-scorer}, {type: odd}"), registry=registry
    )
    pool.serve(PROMPT, usage=usage(720))

    assert pool.verdicts == {"none": 1}
    assert pool.failures == []


def test_its_time_is_counted_apart_from_the_decisions():
    pool = ShadowPool(TIERED, seconds=itertools.count())  # each look at the clock is a second later
    exchange, _ = pool.send(PROMPT)

    assert pool.core.shadow_tally.seconds == 1.0
    assert exchange.decision_s == 1.0


def test_a_plugin_of_its_own_with_a_memory_sees_the_picks_in_effect():
    cold_first = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: no-hit-lru-scorer}, {type: approx-prefix-cache-producer}]
"""
    pool = ShadowPool(cold_first, config=QUEUE_ONLY, n=2)
    pool.report(1, waiting=0.0)
    pool.report(2, waiting=5.0)
    for n in range(4):
        assert pool.serve(f"{n} {PROMPT}", float(n), usage=usage(720)).target.address == "10.0.0.1:8000"

    # After the first cold pick the second endpoint got one longest ago, for it never got one.
    assert pool.verdicts == {"same": 1, "other": 3}


def test_decisions_for_others_are_not_compared():
    pool = ShadowPool(TIERED)
    pick_now(
        pool.director,
        RequestHead("", "POST", "/v1/completions"),
        b'{"model":"m","prompt":"x"}',
        1.0,
        commit=True,
    )

    assert pool.verdicts == {}


def test_requests_without_a_prompt_are_compared_too():
    pool = ShadowPool(TIERED)
    exchange = pool.open(b"", path="/v1/models", method="GET")
    pool.director.pick(exchange, 1.0)

    assert pool.verdicts == {"same": 1}
    assert pool.core.shadow_tally.hit_tokens == {}


def test_a_shadow_comes_changes_and_goes_while_running():
    pool = ShadowPool(None)
    live = pool.core.config
    pool.serve(PROMPT, usage=usage(720))
    assert pool.verdicts == {}
    drive(pool, live, load_config(TIERED, "s"))
    pool.serve(PROMPT, usage=usage(720))
    gpu = pool.core.state.shadow.views[0]
    assert pool.index.size(gpu.index_view) == 45
    shadow = pool.core.state.shadow.scheduler
    drive(pool, load_config(WIDE, "l"), load_config(f"# the same\n{TIERED}", "s"))
    assert pool.core.state.shadow.scheduler is shadow
    assert pool.core.state.shadow.views[0] == gpu
    assert pool.index.size(gpu.index_view) == 45
    pool.serve(PROMPT, usage=usage(720))
    drive(pool, live, None)
    while not pool.core.upkeep.tick(1.0):
        pass
    pool.serve(PROMPT, usage=usage(720))
    pool.index.check_integrity()

    assert pool.core.state.shadow is None
    assert sum(pool.core.shadow_tally.requests.values()) == 2
    assert pool.index.size(gpu.index_view) == 0


def drive(pool, live, shadow):
    steps = recompose(pool.core, live, shadow)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            pool.core = done.value
            return


PROMPTS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 12), st.booleans()), min_size=1, max_size=25)


@settings(deadline=None, max_examples=60)
@given(PROMPTS, st.sampled_from([TIERED, WIDE, TINY_BLOCKS, QUEUE_ONLY]))
def test_the_live_decisions_are_those_without_a_shadow(prompts, shadow):
    pools = [ShadowPool(None, n=4), ShadowPool(shadow, n=4)]
    texts = ["abcdefgh" * 64, "abcdefgh" * 32 + "ijklmnop" * 32, "ijklmnop" * 64, "qrstuvwx" * 64]
    for now, (text, length, ends) in enumerate(prompts):
        targets = []
        for pool in pools:
            exchange, target = pool.send(texts[text][: 40 * length], float(now))
            targets.append(target)
            if ends:
                pool.answer(exchange, now=float(now))
        assert targets[0] == targets[1]
    for pool in pools:
        pool.index.check_integrity()
    assert [r.predicted_gpu_tokens for r in pools[0].records] == [
        r.predicted_gpu_tokens for r in pools[1].records
    ]
