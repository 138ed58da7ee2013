"""Sizes of tiers, and what two of them are worth.

F05 (LR p1399): the capacity had no effect. F06 (LR i1650): auto-tuning by the GPU tier undersized the CPU tier. F07 (llm-d
p1345): both tiers' scores add up. F08 (LR i1047): a weighted score was taken for a count of blocks.
"""

from epp.director.views import Tier, hit_tokens
from epp.endpoints.types import EndpointMetrics
from tests.director.core import Pool

CONFIG = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {{type: approx-prefix-cache-producer, name: gpu, parameters: {{tier: gpu, blockSize: 64, {gpu}}}}}
- {{type: approx-prefix-cache-producer, name: cpu, parameters: {{tier: cpu, blockSize: 64, {cpu}}}}}
- {{type: prefix-cache-scorer, name: gpu-scorer, parameters: {{prefixMatchInfoProducerName: gpu}}}}
- {{type: prefix-cache-scorer, name: cpu-scorer, parameters: {{prefixMatchInfoProducerName: cpu}}}}
"""
FIXED = "autoTune: false, lruCapacityPerServer: {}"


def tiered(gpu, cpu):
    return Pool(n=1, config=CONFIG.format(gpu=gpu, cpu=cpu))


def blocks(letters):
    """A block of 64 bytes for each letter, which is one engine block of 16 tokens."""
    return "".join(letter * 64 for letter in letters)


def looked_up(pool, text):
    """Shares of `text` that both tiers hold, without recording that it was asked for."""
    exchange = pool.open({"model": "m", "prompt": text}, now=9.0)
    pool.director.schedule(exchange, 9.0)
    return [exchange.matches[view].blocks(0) / exchange.matches[view].total_blocks for view in ("gpu", "cpu")]


def index_only(pool, text):
    """`text` was computed, and nothing else takes room beside it."""
    exchange = pool.open({"model": "m", "prompt": text}, now=1.0)
    pool.director.schedule(exchange, 1.0)
    pool.director.commit(exchange, exchange.decision, pool.endpoint(1))


def test_f05_the_capacity_that_is_configured_is_used():
    pool = tiered(FIXED.format(2), FIXED.format(100))
    for letter in "abc":
        index_only(pool, blocks(letter))

    assert [looked_up(pool, blocks(letter))[0] for letter in "abc"] == [0.0, 1.0, 1.0]


def test_f06_what_is_configured_for_the_cpu_tier_beats_what_the_gpu_tier_reports():
    pool = tiered("autoTune: true", FIXED.format(41_000))
    e = pool.endpoint(1)
    pool.core.upkeep.on_metrics(
        e.address, e.incarnation, EndpointMetrics(block_tokens=16, gpu_capacity_tokens=9_271 * 16), 1.0
    )
    gpu, cpu = pool.core.state.views
    chain = list(range(1, 50_001))
    for view in (gpu, cpu):
        pool.index.touch(view.index_view, 0, chain, 16)

    assert (gpu.tier, cpu.tier) == (Tier.GPU, Tier.CPU)
    assert [pool.index.blocks(view.index_view, 0) for view in (gpu, cpu)] == [9_271, 41_000]


def test_f07_a_hit_in_both_tiers_is_worth_both_weights_and_in_the_cpu_tier_one():
    pool = tiered(FIXED.format(2), FIXED.format(4))
    index_only(pool, blocks("ab"))
    before = looked_up(pool, blocks("ab"))
    index_only(pool, blocks("cd"))
    after = looked_up(pool, blocks("ab"))

    assert (before, after) == ([1.0, 1.0], [0.0, 1.0])


def test_f08_counts_stay_counts_whatever_the_weights():
    pool = Pool(
        n=1,
        config=CONFIG.format(gpu=FIXED.format(1), cpu=FIXED.format(100))
        + """
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: gpu-scorer, weight: 1}
  - {pluginRef: cpu-scorer, weight: 0.8}
""",
    )
    index_only(pool, blocks("abcdefghij"))
    exchange = pool.open({"model": "m", "prompt": blocks("abcdefghij")}, now=9.0)
    pool.director.schedule(exchange, 9.0)
    match = exchange.matches["cpu"]
    cpu = pool.core.state.views[1]

    assert (match.blocks(0), match.total_blocks) == (10, 10)
    assert hit_tokens(cpu, pool.endpoint(1), match, 200) == 160
    assert (
        round(exchange.decision.primary.totals[0], 6) == 0.9
    )  # one of ten blocks on the GPU, all on the CPU
