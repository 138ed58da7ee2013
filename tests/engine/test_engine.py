"""The rules of the engine model, each on the smallest server that shows it."""

import msgspec
import pytest

from epp.engine import Engine, EngineConfig, EngineRequest, FinishReason, LinearLatency, block_keys

UNIT = LinearLatency(
    base_s=1.0, token_s=0.0, pair_s=0.0, context_s=0.0, link_bytes_per_s=1e9, link_latency_s=10.0
)
"""Every step takes 1 s and every transfer 10 s."""


def engine(latency=UNIT, **config):
    defaults = {"gpu_blocks": 65, "block_tokens": 4, "kv_bytes_per_token": 1}
    return Engine(EngineConfig(**(defaults | config)), latency)


def request(name, prompt, output=1, block_tokens=4, **fields):
    """A request for `prompt`, a list of token ids, whose output is tokens that nobody else has."""
    ids = [*prompt, *(hash((name, position)) for position in range(output))]
    keys = block_keys(ids, block_tokens)
    return EngineRequest(name, len(prompt), output, keys, **fields)


def run(server, now=0.0, limit=1000):
    """Step until nothing is live; the time at the end and the outputs by request."""
    outputs = {}
    for _ in range(limit):
        if not server.live_requests:
            return now, outputs
        result = server.step(now)
        server.check_integrity()
        if result.duration_s is None:
            now = result.wake_s
            continue
        now += result.duration_s
        for output in result.outputs:
            outputs.setdefault(output.request_id, []).append(output)
    raise AssertionError("the engine makes no progress")


def hits(outputs, name):
    """GPU and CPU hit of a request."""
    timeline = outputs[name][0].timeline
    return timeline.gpu_hit_tokens, timeline.cpu_hit_tokens


# -------------------------------------------------------------------- output


def test_a_request_yields_its_tokens_one_a_step():
    server = engine()
    server.submit(request("a", range(8), output=3), 0.0)
    end_s, outputs = run(server)

    assert end_s == 3.0
    assert [output.new_tokens for output in outputs["a"]] == [1, 1, 1]
    assert [output.finish_reason for output in outputs["a"]] == [None, None, FinishReason.LENGTH]


def test_the_first_and_the_last_token_carry_the_timeline():
    server = engine()
    server.submit(request("a", range(8), output=3), 0.5)
    _, outputs = run(server, now=2.0)
    first, middle, last = outputs["a"]

    assert middle.timeline is None
    assert (first.timeline.generated_tokens, last.timeline.generated_tokens) == (1, 3)
    assert msgspec.structs.asdict(last.timeline) == {
        "prompt_tokens": 8,
        "generated_tokens": 3,
        "arrival_s": 0.5,
        "scheduled_s": 2.0,
        "first_token_s": 3.0,
        "last_token_s": 5.0,
        "gpu_hit_tokens": 0,
        "cpu_hit_tokens": 0,
        "preemptions": 0,
    }


def test_the_elapsed_time_counts_from_arrival_and_then_from_the_token_before():
    server = engine()
    server.submit(request("a", range(8), output=2), 0.5)
    _, outputs = run(server, now=2.0)

    assert [output.elapsed_s for output in outputs["a"]] == [2.5, 1.0]


def test_a_request_ends_for_the_reason_it_was_given():
    server = engine()
    server.submit(request("a", range(4), finish_reason=FinishReason.STOP), 0.0)
    _, outputs = run(server)

    assert outputs["a"][-1].finish_reason is FinishReason.STOP
    assert (server.counters.finished_stop, server.counters.finished_length) == (1, 0)


def test_an_idle_engine_has_nothing_to_do():
    result = engine().step(5.0)

    assert (result.duration_s, result.outputs, result.wake_s) == (None, (), None)


# -------------------------------------------------------------------- GPU tier


def test_a_repeated_prompt_hits_all_but_its_last_block():
    """At least one token is computed, so of 16 tokens in 4 blocks 12 are a hit."""
    server = engine()
    server.submit(request("a", range(16)), 0.0)
    now, _ = run(server)
    server.submit(request("b", range(16)), now)
    _, outputs = run(server, now)

    assert hits(outputs, "b") == (12, 0)


def test_a_longer_prompt_hits_every_full_block_of_its_prefix():
    server = engine()
    server.submit(request("a", range(16)), 0.0)
    now, _ = run(server)
    server.submit(request("b", [*range(16), 99]), now)
    _, outputs = run(server, now)

    assert hits(outputs, "b") == (16, 0)


def test_generated_tokens_are_found_again():
    """The answer is part of the next turn's prompt; its last token was never computed."""
    server = engine()
    first = EngineRequest("a", 4, 6, block_keys([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 4))
    server.submit(first, 0.0)
    now, _ = run(server)
    server.submit(request("b", [*range(1, 11), 50, 51]), now)
    _, outputs = run(server, now)

    assert hits(outputs, "b") == (8, 0)


def test_requests_of_one_step_share_what_the_first_computes():
    server = engine()
    server.submit(request("a", range(16), output=2), 0.0)
    server.submit(request("b", range(16), output=2), 0.0)
    _, outputs = run(server)

    assert hits(outputs, "a") == (0, 0)
    assert hits(outputs, "b") == (12, 0)


def test_the_tail_of_a_prompt_is_evicted_before_its_head():
    server = engine(gpu_blocks=9)
    server.submit(request("a", range(16)), 0.0)
    now, _ = run(server)
    server.submit(request("b", range(100, 124)), now)
    now, _ = run(server, now)
    server.submit(request("c", [*range(16), 99]), now)
    _, outputs = run(server, now)

    assert hits(outputs, "c") == (8, 0)


def test_blocks_without_keys_occupy_room_and_are_never_found():
    server = engine(gpu_blocks=5)
    server.submit(EngineRequest("a", 16, 1), 0.0)
    assert server.step(0.0).duration_s == 1.0
    server.submit(EngineRequest("b", 16, 1), 1.0)
    _, outputs = run(server, 1.0)

    assert hits(outputs, "b") == (0, 0)


def test_a_reset_forgets_the_gpu_tier():
    server = engine()
    server.submit(request("a", range(16)), 0.0)
    now, _ = run(server)

    assert server.reset_prefix_cache()
    server.submit(request("b", range(16)), now)
    _, outputs = run(server, now)
    assert hits(outputs, "b") == (0, 0)


def test_a_reset_is_refused_while_blocks_are_in_use():
    server = engine()
    server.submit(request("a", range(16), output=5), 0.0)
    server.step(0.0)

    assert not server.reset_prefix_cache()


# -------------------------------------------------------------------- CPU tier


def overflowed():
    """A server whose GPU tier has lost prompt `a` while its CPU tier holds it."""
    server = engine(gpu_blocks=9, cpu_blocks=64)
    server.submit(request("a", range(16)), 0.0)
    now, _ = run(server)
    server.submit(request("b", range(100, 132)), now)
    now, _ = run(server, now)
    return server, now


def test_a_prompt_that_left_the_gpu_is_loaded_from_the_cpu_tier():
    server, now = overflowed()
    server.submit(request("c", [*range(16), 99]), now)
    end_s, outputs = run(server, now)

    assert hits(outputs, "c") == (0, 16)
    assert end_s - now == pytest.approx(10 + 1, abs=1e-6)


def test_the_gpu_serves_the_head_and_the_cpu_tier_the_rest():
    server = engine(gpu_blocks=9, cpu_blocks=64)
    server.submit(request("a", range(16)), 0.0)
    now, _ = run(server)
    server.submit(request("b", range(100, 124)), now)
    now, _ = run(server, now)
    server.submit(request("c", [*range(16), 99]), now)
    _, outputs = run(server, now)

    assert hits(outputs, "c") == (8, 8)


def test_loaded_blocks_are_in_the_gpu_tier_again():
    server, now = overflowed()
    server.submit(request("c", [*range(16), 99]), now)
    now, _ = run(server, now)
    server.submit(request("d", [*range(16), 98]), now)
    _, outputs = run(server, now)

    assert hits(outputs, "d") == (16, 0)


def test_generated_tokens_do_not_reach_the_cpu_tier():
    server = engine(gpu_blocks=9, cpu_blocks=64)
    server.submit(request("a", range(8), output=20), 0.0)
    run(server)

    assert server.cpu_blocks_held == 2


def test_a_sequence_waits_for_its_transfer_outside_the_batch():
    server, now = overflowed()
    server.submit(request("c", [*range(16), 99]), now)
    result = server.step(now)

    assert result.duration_s is None
    assert result.wake_s == pytest.approx(now + 10, abs=1e-6)
    assert (server.gauges().loading, server.gauges().waiting, server.gauges().running) == (1, 0, 0)


def test_other_requests_run_while_a_transfer_is_on_its_way():
    server, now = overflowed()
    server.submit(request("c", [*range(16), 99]), now)
    server.submit(request("d", range(200, 204)), now)
    result = server.step(now)

    assert [output.request_id for output in result.outputs] == ["d"]


def test_the_link_serves_one_transfer_after_the_other():
    server = engine(gpu_blocks=17, cpu_blocks=64)
    for name, start in (("a", 0), ("b", 100)):
        server.submit(request(name, range(start, start + 16)), 0.0)
    now, _ = run(server)
    server.submit(request("filler", range(500, 564)), now)
    now, _ = run(server, now)
    server.submit(request("c", [*range(16), 99]), now)
    server.submit(request("d", [*range(100, 116), 99]), now)
    _, outputs = run(server, now)

    assert hits(outputs, "c") == (0, 16)
    assert hits(outputs, "d") == (0, 16)
    assert outputs["c"][0].elapsed_s == pytest.approx(11, abs=1e-6)
    assert outputs["d"][0].elapsed_s == pytest.approx(21, abs=1e-6)


def test_a_reset_of_the_gpu_tier_leaves_the_cpu_tier():
    server, now = overflowed()
    assert server.reset_prefix_cache()
    server.submit(request("c", [*range(16), 99]), now)
    _, outputs = run(server, now)

    assert hits(outputs, "c") == (0, 16)


def test_an_external_reset_forgets_both_tiers():
    server, _ = overflowed()
    assert server.reset_prefix_cache(external=True)

    assert server.cpu_blocks_held == 0


def test_a_gpu_hit_keeps_the_prompt_in_the_cpu_tier():
    """Refreshed by the hit, `a` outlives `b`, which was stored later."""
    server = engine(gpu_blocks=65, cpu_blocks=8)
    server.submit(request("a", range(16)), 0.0)
    now, _ = run(server)
    server.submit(request("b", range(100, 116)), now)
    now, _ = run(server, now)
    server.submit(request("a2", [*range(16), 1, 2]), now)
    now, _ = run(server, now)
    server.submit(request("c", range(200, 216)), now)
    now, _ = run(server, now)
    assert server.reset_prefix_cache()
    server.submit(request("a3", [*range(16), 1, 2]), now)
    server.submit(request("b3", [*range(100, 116), 1, 2]), now)
    _, outputs = run(server, now)

    assert hits(outputs, "a3") == (0, 16)
    assert hits(outputs, "b3") == (0, 0)


def test_a_prompt_larger_than_the_cpu_tier_is_not_stored():
    server = engine(cpu_blocks=3)
    server.submit(request("a", range(16)), 0.0)
    run(server)

    assert server.cpu_blocks_held == 0
    assert (server.counters.stores, server.counters.stores_skipped) == (0, 1)


# -------------------------------------------------------------------- batching


def test_the_budget_splits_a_long_prompt_into_chunks():
    server = engine(max_num_batched_tokens=8)
    server.submit(request("a", range(20)), 0.0)
    sizes = [server.step(float(step)).computed_tokens for step in range(3)]

    assert sizes == [8, 8, 4]


def test_decodes_come_before_new_prompts():
    server = engine(max_num_batched_tokens=8)
    server.submit(request("a", range(4), output=5), 0.0)
    server.step(0.0)
    server.submit(request("b", range(100, 120)), 1.0)
    result = server.step(1.0)

    assert result.computed_tokens == 8
    assert [output.request_id for output in result.outputs] == ["a"]


def test_a_step_without_budget_left_admits_nobody():
    server = engine(max_num_batched_tokens=4)
    server.submit(request("a", range(8)), 0.0)
    server.submit(request("b", range(100, 104)), 0.0)
    server.step(0.0)

    assert (server.gauges().running, server.gauges().waiting) == (1, 1)


def test_no_more_sequences_run_than_may():
    server = engine(max_num_seqs=2)
    for name in "abc":
        server.submit(request(name, [ord(name)] * 4, output=5), 0.0)
    server.step(0.0)

    assert (server.gauges().running, server.gauges().waiting) == (2, 1)


def test_requests_are_admitted_in_the_order_they_came():
    """The short request behind the long one waits, although it would fit."""
    server = engine(gpu_blocks=9)
    server.submit(request("a", range(20), output=5), 0.0)
    server.step(0.0)
    server.submit(request("long", range(100, 120)), 1.0)
    server.submit(request("short", range(200, 204)), 1.0)
    server.step(1.0)

    assert (server.gauges().running, server.gauges().waiting) == (1, 2)


def test_a_longer_step_costs_what_the_profile_says():
    server = engine(LinearLatency(base_s=1.0, token_s=0.1, pair_s=0.01, context_s=0.001))
    server.submit(request("a", range(10), output=2), 0.0)
    prefill = server.step(0.0)
    decode = server.step(0.0)

    assert prefill.duration_s == pytest.approx(1.0 + 10 * 0.1 + 50 * 0.01)
    assert decode.duration_s == pytest.approx(1.0 + 0.1 + 11 * 0.001)


def test_a_chunk_attends_to_what_came_before_it():
    server = engine(LinearLatency(base_s=0.0, token_s=0.0, pair_s=1.0), max_num_batched_tokens=8)
    server.submit(request("a", range(12)), 0.0)

    assert server.step(0.0).duration_s == 8 * 4
    assert server.step(0.0).duration_s == 4 * (8 + 2)


# -------------------------------------------------------------------- preemption


def two_growing():
    """Two sequences of 8 tokens in 5 usable blocks of 4; both want to grow to 16."""
    server = engine(gpu_blocks=6)
    server.submit(request("a", range(8), output=9), 0.0)
    server.submit(request("b", range(100, 108), output=9), 0.0)
    return server


def test_the_youngest_is_preempted_when_blocks_run_out():
    server = two_growing()
    now = 0.0
    while not server.counters.preemptions:
        now += server.step(now).duration_s
        server.check_integrity()

    assert (server.gauges().running, server.gauges().waiting) == (1, 1)


def test_a_preempted_sequence_is_computed_again_and_ends():
    server = two_growing()
    _, outputs = run(server)

    assert len(outputs["a"]) == len(outputs["b"]) == 9
    assert outputs["a"][-1].timeline.preemptions == 0
    assert outputs["b"][-1].timeline.preemptions == server.counters.preemptions > 0


def test_a_preemption_is_not_counted_as_another_prompt():
    server = two_growing()
    run(server)

    assert server.counters.prefix_queries == server.counters.prompt == 16


def test_nobody_is_admitted_in_a_step_that_preempted():
    """`c` needs a fifth block, loses its four, and could be admitted at once for its first chunk of two."""
    server = engine(gpu_blocks=7, max_num_batched_tokens=8)
    server.submit(EngineRequest("a", 4, 9), 0.0)
    server.submit(EngineRequest("c", 16, 9), 0.0)
    now = 0.0
    while not server.counters.preemptions:
        now += server.step(now).duration_s

    assert (server.gauges().running, server.gauges().waiting) == (1, 1)
    server.step(now)
    assert (server.gauges().running, server.gauges().waiting) == (2, 0)


def test_sequences_that_hold_loaded_blocks_do_not_wait_for_each_other_for_ever():
    server = engine(gpu_blocks=13, cpu_blocks=64)
    for name, start in (("a", 0), ("b", 100)):
        server.submit(request(name, range(start, start + 20)), 0.0)
    now, _ = run(server)
    server.submit(request("filler", range(500, 548)), now)
    now, _ = run(server, now)
    for name, start in (("c", 0), ("d", 100)):
        server.submit(request(name, [*range(start, start + 20), *range(900, 920)], output=5), now)
    _, outputs = run(server, now)

    assert hits(outputs, "c") == hits(outputs, "d") == (0, 20)
    assert server.counters.preemptions > 0


def test_an_older_sequence_takes_the_blocks_of_the_youngest():
    server = engine(gpu_blocks=5)
    server.submit(request("a", range(8), output=5), 0.0)
    server.submit(request("b", range(100, 108), output=5), 0.0)
    server.step(0.0)
    result = server.step(1.0)

    assert [output.request_id for output in result.outputs] == ["a"]
    assert (server.gauges().running, server.gauges().waiting) == (1, 1)


def test_a_sequence_that_runs_alone_takes_the_blocks_of_one_that_waits_for_its_place():
    """`c` was loaded and waits for `a`'s place; `a` grows into the blocks that `c` holds."""
    server = engine(gpu_blocks=13, cpu_blocks=64, max_num_seqs=1)
    server.submit(request("p", range(16)), 0.0)
    now, _ = run(server)
    server.submit(request("filler", range(500, 548)), now)
    now, _ = run(server, now)
    server.submit(request("c", [*range(16), 99]), now)
    server.submit(request("a", range(700, 720), output=28), now)
    _, outputs = run(server, now)

    assert hits(outputs, "c") == (0, 16)
    assert outputs["a"][-1].timeline.preemptions == 0
    assert outputs["c"][-1].timeline.preemptions == 1


def test_a_sequence_that_runs_alone_gives_way_to_one_that_loads():
    """`c` holds four blocks while it is loaded; `a` needs a tenth of the eleven before that has ended."""
    server = engine(gpu_blocks=13, cpu_blocks=64)
    server.submit(request("p", range(16)), 0.0)
    now, _ = run(server)
    server.submit(request("filler", range(500, 548)), now)
    now, _ = run(server, now)
    server.submit(request("a", range(700, 730), output=10), now)
    server.submit(request("c", [*range(16), 99]), now)
    _, outputs = run(server, now)

    assert outputs["a"][-1].timeline.preemptions == 1
    assert outputs["c"][-1].timeline.preemptions == 0


# -------------------------------------------------------------------- abort


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_aborted_request_gives_its_blocks_back(steps):
    server = engine()
    server.submit(request("a", range(16), output=9), 0.0)
    for step in range(steps):
        server.step(float(step))

    assert server.abort("a")
    assert server.live_requests == 0
    assert server.gauges().kv_usage == 0.0
    server.check_integrity()


def test_a_request_can_be_aborted_while_it_loads():
    server, now = overflowed()
    server.submit(request("c", [*range(16), 99]), now)
    server.step(now)

    assert server.abort("c")
    assert server.gauges().loading == 0
    server.check_integrity()


def test_aborting_what_is_not_live_does_nothing():
    assert not engine().abort("nobody")


@pytest.mark.parametrize("name", ["a", "b"])
def test_running_and_waiting_requests_can_be_aborted(name):
    server = engine(max_num_seqs=1)
    for each in "ab":
        server.submit(request(each, range(8), output=3), 0.0)
    server.step(0.0)

    assert server.abort(name)
    server.check_integrity()
    _, outputs = run(server, 1.0)
    assert name not in outputs
    assert server.live_requests == 0


# -------------------------------------------------------------------- counters and gauges


def test_counters_tell_where_prompt_tokens_came_from():
    server = engine(gpu_blocks=9, cpu_blocks=64)
    server.submit(request("a", range(16)), 0.0)
    now, _ = run(server)
    server.submit(request("b", range(100, 124)), now)
    now, _ = run(server, now)
    server.submit(request("c", [*range(16), 99], output=3), now)
    run(server, now)
    counters = server.counters

    assert (counters.prompt, counters.generation) == (57, 5)
    assert (counters.prompt_gpu_hit, counters.prompt_cpu_hit) == (8, 8)
    assert (counters.prompt_cached, counters.prompt_computed) == (16, 41)
    assert (counters.prefix_queries, counters.prefix_hits) == (57, 8)
    assert (counters.external_queries, counters.external_hits) == (49, 8)
    assert (counters.loads, counters.load_bytes) == (1, 8)
    assert (counters.stores, counters.store_bytes) == (2, 40)


def test_a_server_without_a_cpu_tier_counts_no_external_queries():
    server = engine()
    server.submit(request("a", range(16)), 0.0)
    run(server)

    assert (server.counters.external_queries, server.counters.stores_skipped) == (0, 0)


def test_usage_counts_blocks_of_live_sequences_only():
    server = engine(gpu_blocks=9)
    server.submit(request("a", range(16), output=2), 0.0)
    server.step(0.0)
    assert server.gauges().kv_usage == 0.5

    server.step(1.0)
    assert server.gauges().kv_usage == 0.0


# -------------------------------------------------------------------- refusals


def test_an_id_can_be_used_by_one_live_request_only():
    server = engine()
    server.submit(request("a", range(4)), 0.0)

    with pytest.raises(ValueError, match="request id 'a' is in use"):
        server.submit(request("a", range(4)), 0.0)


def test_a_sequence_that_could_never_fit_is_refused():
    server = engine(gpu_blocks=5)
    server.submit(request("fits", range(16)), 0.0)

    with pytest.raises(ValueError, match="a sequence of 17 tokens cannot fit 16 tokens"):
        server.submit(request("a", range(16), output=2), 0.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gpu_blocks": 1}, "gpu_blocks must be at least 2"),
        ({"cpu_blocks": -1}, "cpu_blocks must not be negative, got -1"),
        ({"block_tokens": 0}, "block_tokens must be at least 1, got 0"),
        ({"max_num_seqs": 0}, "max_num_seqs must be at least 1, got 0"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens must be at least 1, got 0"),
        ({"kv_bytes_per_token": 0}, "kv_bytes_per_token must be at least 1, got 0"),
    ],
)
def test_sizes_out_of_range_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        EngineConfig(**fields)


@pytest.mark.parametrize(
    ("prompt", "output", "message"),
    [(0, 1, "prompt_tokens must be at least 1, got 0"), (1, 0, "output_tokens must be at least 1, got 0")],
)
def test_an_empty_request_is_refused(prompt, output, message):
    with pytest.raises(ValueError, match=message):
        EngineRequest("a", prompt, output)


# -------------------------------------------------------------------- integrity


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda server: server._waiting.append(server._running[0]), "in no queue or in two"),
        (lambda server: server._running.clear(), "in no queue or in two"),
        (lambda server: setattr(server._running[0], "computed_tokens", 99), "a has tokens without blocks"),
        (lambda server: server._running[0].blocks.pop(), "a has tokens without blocks"),
        (lambda server: server._running[0].blocks.append(5), "reference counts differ"),
    ],
)
def test_the_integrity_check_sees(spoil, message):
    server = engine()
    server.submit(request("a", range(16), output=9), 0.0)
    server.step(0.0)
    spoil(server)

    with pytest.raises(AssertionError, match=message):
        server.check_integrity()


def test_the_integrity_check_sees_too_large_a_batch():
    server = engine(max_num_seqs=1)
    for name in "ab":
        server.submit(request(name, range(4), output=9), 0.0)
    server.step(0.0)
    server._running.append(server._waiting.pop())

    with pytest.raises(AssertionError, match="2 sequences run, 1 may"):
        server.check_integrity()
