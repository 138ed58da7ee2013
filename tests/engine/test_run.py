"""Runs of equal steps: one event in place of many, with the same result."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epp.engine import CpuTier, Engine, EngineConfig, EngineRequest, LinearLatency, StepRun, block_keys

LATENCY = LinearLatency(
    base_s=1.0, token_s=0.01, pair_s=0.001, context_s=0.01, link_bytes_per_s=8.0, link_latency_s=0.5
)
UNIT = LinearLatency(
    base_s=1.0, token_s=0.0, pair_s=0.0, context_s=0.0, link_bytes_per_s=1e30, link_latency_s=10.0
)


def engine(latency=UNIT, cpu_tier=None, **config):
    defaults = {"gpu_blocks": 65, "block_tokens": 4, "kv_bytes_per_token": 1}
    return Engine(EngineConfig(**(defaults | config)), latency, cpu_tier)


def request(name, prompt, output=1):
    return EngineRequest(name, len(prompt), output, block_keys(list(prompt), 4))


def drive(server, arrivals, most_steps):
    """Submit at the first boundary after each arrival; timelines by request, and how many events it took."""
    arrivals = sorted(arrivals, key=lambda pair: pair[0])
    now, events, timelines = 0.0, 0, {}
    while arrivals or server.live_requests:
        while arrivals and arrivals[0][0] <= now:
            server.submit(arrivals.pop(0)[1], now)
        run = server.begin(now, most_steps)
        events += 1
        server.check_integrity()
        if run is None:
            later = [
                when for when in (server.wake_s, arrivals[0][0] if arrivals else None) if when is not None
            ]
            now = max(now, min(later))
            continue
        if arrivals and run.open:
            run.cut(arrivals[0][0])
        now = run.end_s
        for output in server.finish(run).outputs:
            if output.finish_reason is not None:
                timelines[output.request_id] = output.timeline
        server.check_integrity()
    return timelines, events


def test_a_lone_decode_is_one_run():
    server = engine()
    server.submit(request("a", range(8), output=10), 0.0)
    first = server.finish(server.begin(0.0))
    run = server.begin(1.0)

    assert [output.new_tokens for output in first.outputs] == [1]
    assert (run.steps, run.end_s) == (9, 10.0)
    (last,) = server.finish(run).outputs
    assert (last.new_tokens, last.elapsed_s, last.timeline.generated_tokens) == (9, 9.0, 10)


def test_a_run_ends_with_the_step_during_which_somebody_comes():
    server = engine()
    server.submit(request("a", range(8), output=10), 0.0)
    server.finish(server.begin(0.0))
    run = server.begin(1.0)
    run.cut(3.5)

    assert run.end_s == 4.0
    assert run.open


def test_a_run_is_not_open_while_the_queue_is_blocked():
    server = engine(gpu_blocks=6)
    server.submit(request("a", range(8), output=10), 0.0)
    server.submit(request("b", range(100, 116)), 0.0)
    server.finish(server.begin(0.0))

    assert not server.begin(1.0).open


def test_a_run_ends_when_a_transfer_does():
    server = engine(cpu_blocks=64, gpu_blocks=12)
    server.submit(request("warm", range(8)), 0.0)
    server.finish(server.begin(0.0))
    server.submit(request("filler", range(100, 140)), 1.0)
    server.finish(server.begin(1.0))
    server.submit(request("decoding", range(200, 204), output=30), 2.0)
    server.finish(server.begin(2.0))
    server.submit(request("back", range(9)), 3.0)
    run = server.begin(3.0)

    assert server.wake_s == 13.0
    assert run.end_s == 13.0


def test_a_run_ends_before_blocks_run_out():
    """Five usable blocks of 4 tokens: two sequences of 5 tokens may grow to 8 and no further."""
    server = engine(gpu_blocks=5)
    server.submit(request("a", range(5), output=12), 0.0)
    server.submit(request("b", range(10, 15), output=12), 0.0)
    server.finish(server.begin(0.0))
    run = server.begin(1.0)

    assert run.steps == 3


@pytest.mark.parametrize(
    ("elapsed_s", "steps"), [(0.0, 1), (1.0, 1), (1.1, 2), (2.5, 2), (2.6, 3), (4.5, 3), (99.0, 4)]
)
def test_a_cut_finds_the_first_boundary_at_or_after_the_moment(elapsed_s, steps):
    """Steps of 1.0, 1.5, 2.0 and 2.5 seconds."""
    run = StepRun([], start_s=10.0, first_s=1.0, growth_s=0.5, steps=4)
    run.cut(10.0 + elapsed_s)

    assert run.steps == steps


def test_of_steps_that_do_not_grow_a_cut_counts_them():
    run = StepRun([], start_s=0.0, first_s=2.0, growth_s=0.0, steps=10)
    run.cut(6.0)

    assert run.steps == 3


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(1, 24), st.integers(1, 20)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=60)
@given(ARRIVALS, st.sampled_from([13, 20, 65]), st.sampled_from([0, 8, 64]))
def test_runs_give_what_single_steps_give(arrivals, gpu_blocks, cpu_blocks):
    def requests():
        return [
            (float(when), request(f"r{n}", [family * 1000 + i for i in range(length)], output))
            for n, (when, family, length, output) in enumerate(arrivals)
        ]

    def server():
        return engine(LATENCY, gpu_blocks=gpu_blocks, cpu_blocks=cpu_blocks, max_num_batched_tokens=64)

    single, many = drive(server(), requests(), most_steps=1)
    joined, few = drive(server(), requests(), most_steps=None)

    assert few <= many
    assert joined.keys() == single.keys()
    for name, timeline in joined.items():
        other = single[name]
        assert timeline.preemptions == other.preemptions
        assert (timeline.gpu_hit_tokens, timeline.cpu_hit_tokens) == (
            other.gpu_hit_tokens,
            other.cpu_hit_tokens,
        )
        assert timeline.first_token_s == pytest.approx(other.first_token_s)
        assert timeline.last_token_s == pytest.approx(other.last_token_s)


# -------------------------------------------------------------------- LMCache


def lmcache(**config):
    return engine(gpu_blocks=12, cpu_blocks=64, cpu_unit_blocks=2, cpu_synchronous=True, **config)


def evicted(server):
    """The server after it has computed 20 tokens, five blocks of which only the CPU tier still holds."""
    server.submit(request("warm", range(20)), 0.0)
    server.finish(server.begin(0.0))
    server.submit(request("filler", range(100, 144)), 1.0)
    server.finish(server.begin(1.0))
    return server


def test_a_synchronous_transfer_is_part_of_the_step():
    server = evicted(lmcache())
    server.submit(request("back", range(21)), 2.0)
    run = server.begin(2.0)

    assert run.end_s == 13.0
    assert server.finish(run).outputs[0].timeline.cpu_hit_tokens == 16


def test_hits_end_at_a_whole_unit():
    """Five blocks are held; units of two blocks give four."""
    server = evicted(engine(gpu_blocks=12, cpu_blocks=64, cpu_unit_blocks=2))
    server.submit(request("back", range(21)), 2.0)
    assert server.begin(2.0) is None
    run = server.begin(server.wake_s)

    assert server.finish(run).outputs[0].timeline.cpu_hit_tokens == 16


def test_servers_may_share_a_cpu_tier():
    tier = CpuTier(64)
    one, other = engine(cpu_tier=tier, cpu_blocks=64), engine(cpu_tier=tier, cpu_blocks=64)
    one.submit(request("a", range(8)), 0.0)
    one.finish(one.begin(0.0))
    other.submit(request("b", range(9)), 5.0)

    assert other.begin(5.0) is None
    run = other.begin(other.wake_s)
    assert other.finish(run).outputs[0].timeline.cpu_hit_tokens == 8


def test_a_lost_cpu_tier_holds_nothing_and_takes_nothing():
    server = evicted(engine(gpu_blocks=12, cpu_blocks=64))
    server.lose_cpu_tier()
    server.submit(request("back", range(21)), 2.0)

    assert server.finish(server.begin(2.0)).outputs[0].timeline.cpu_hit_tokens == 0
    assert server.cpu_blocks_held == 0
    server.check_integrity()


def test_a_sequence_that_runs_alone_is_not_preempted_for_one_that_queues():
    """One is back from its transfer and holds three blocks; the other, alone in the batch, needs them."""
    arrivals = [
        (0.0, request("short", range(1_000, 1_002), 14)),
        (2.0, request("long", range(19), 20)),
        (5.0, request("back", range(1_000, 1_018), 3)),
    ]
    server = engine(LATENCY, gpu_blocks=13, cpu_blocks=8, max_num_batched_tokens=16)
    timelines, events = drive(server, arrivals, most_steps=1)

    assert timelines.keys() == {"short", "long", "back"}
    assert events < 60


def test_in_brief_a_run_tells_of_first_and_last_tokens_alone():
    def told(brief):
        server = Engine(EngineConfig(gpu_blocks=64), LinearLatency())
        server.submit(EngineRequest("long", 20, 40), 0.0)
        server.submit(EngineRequest("short", 20, 10), 0.0)
        outputs, now = [], 0.0
        while run := server.begin(now):
            outputs += server.finish(run, brief=brief).outputs
            now = run.end_s
        return outputs, server.counters.generation

    whole, brief = told(False), told(True)

    assert [(o.request_id, o.finish_reason) for o in brief[0]] == [
        ("long", None), ("short", None), ("short", "length"), ("long", "length"),
    ]  # fmt: skip
    assert brief[0] == [output for output in whole[0] if output.timeline is not None]
    assert (len(whole[0]), whole[1], brief[1]) == (5, 50, 50)


def test_a_request_is_looked_at_when_a_step_ends_and_in_a_closed_run_at_its_end():
    run = StepRun([], start_s=1.0, first_s=0.5, steps=4)
    assert [run.boundary_s(now) for now in (1.0, 1.5, 1.6, 9.0)] == [1.5, 1.5, 2.0, 3.0]

    run.open = False
    assert run.boundary_s(1.0) == 3.0
