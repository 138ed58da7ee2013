"""When a first token would come: against the engine itself, where nothing comes after the request."""

import pytest

from epp.engine import Engine, EngineConfig, EngineRequest, KernelLatency, block_keys

LATENCY = KernelLatency(
    overhead_s=0.001,
    read_s=0.010,
    read_token_s=0.0,
    compute_s=0.001,
    compute_token_s=0.00005,
    pair_s=1e-9,
    decode_s=0.001,
    context_s=4e-8,
    link_bytes_per_s=1e9,
)


def server(**fields):
    return Engine(EngineConfig(**({"gpu_blocks": 512, "max_num_batched_tokens": 1000} | fields)), LATENCY)


def asked(name, prompt, output=4, first=0):
    return EngineRequest(name, prompt, output, block_keys(range(first, first + prompt), 16))


def first_token_of(engine, name, now):
    """Step until it comes."""
    for _ in range(10_000):
        result = engine.step(now)
        now = result.wake_s if result.duration_s is None else now + result.duration_s
        for output in result.outputs:
            if output.request_id == name and output.timeline is not None:
                return output.timeline.first_token_s
    raise AssertionError("no token came")


def check(engine, request, now, rel=1e-9):
    expected = engine.forecast(request, now)
    engine.submit(request, now)
    assert first_token_of(engine, request.request_id, now) == pytest.approx(expected, rel=rel)
    return expected


@pytest.mark.parametrize("prompt", [1, 500, 1000, 2500])
def test_alone_a_request_is_computed_at_once(prompt):
    check(server(), asked("a", prompt), 5.0)


def test_what_the_gpu_tier_holds_is_not_computed_again():
    engine = server()
    engine.submit(asked("a", 800, output=1), 0.0)
    first_token_of(engine, "a", 0.0)

    assert check(engine, asked("b", 800), 10.0) == pytest.approx(10.012, abs=0.002)


def test_what_is_queued_comes_first():
    engine = server()
    for number in range(3):
        engine.submit(asked(f"q{number}", 900, first=10_000 * number), 0.0)

    assert check(engine, asked("a", 900, first=90_000), 0.0, rel=0.02) > 4 * 0.045


def test_prompts_that_are_half_computed_come_first_and_decodes_run_beside():
    engine = server()
    engine.submit(asked("long", 1_500, output=50), 0.0)
    result = engine.step(0.0)

    check(engine, asked("a", 900, first=90_000), result.duration_s, rel=0.02)


@pytest.mark.parametrize("synchronous", [False, True])
def test_what_the_cpu_tier_holds_is_fetched(synchronous):
    """800 tokens of 131,072 bytes over 1 GB/s; the step computes 16 of them at most."""
    engine = server(gpu_blocks=64, cpu_blocks=500, cpu_synchronous=synchronous)
    engine.submit(asked("a", 800, output=1), 0.0)
    now = first_token_of(engine, "a", 0.0)
    for number in range(3):
        engine.submit(asked(f"b{number}", 900, output=1, first=10_000 * (number + 1)), now)
        now = first_token_of(engine, f"b{number}", now)

    assert check(engine, asked("c", 800), now, rel=0.02) - now == pytest.approx(0.105 + 0.016, abs=0.01)


def test_without_room_it_waits_for_the_first_that_ends():
    engine = server(gpu_blocks=128)
    engine.submit(asked("short", 900, output=30), 0.0)
    engine.submit(asked("long", 900, output=300, first=10_000), 0.0)
    now = first_token_of(engine, "long", 0.0)

    assert check(engine, asked("a", 900, first=90_000), now, rel=0.1) > now + 25 * 0.013


def test_without_any_room_it_waits_for_the_last():
    engine = server(gpu_blocks=128)
    engine.submit(asked("short", 900, output=30), 0.0)
    engine.submit(asked("long", 900, output=300, first=10_000), 0.0)
    now = first_token_of(engine, "long", 0.0)

    assert engine.forecast(asked("a", 1_990, first=90_000), now) > now + 280 * 0.013


def test_a_queued_sequence_that_has_its_blocks_needs_no_more():
    """It is back from a transfer and waits for a step."""
    engine = server(gpu_blocks=64, cpu_blocks=500)
    engine.submit(asked("a", 800, output=1), 0.0)
    now = first_token_of(engine, "a", 0.0)
    engine.submit(asked("b", 900, output=1, first=10_000), now)
    now = first_token_of(engine, "b", now)
    engine.submit(asked("back", 800), now)
    parked = engine.step(now)
    assert engine.gauges().loading == 1

    check(engine, asked("c", 100, first=90_000), parked.wake_s or now, rel=0.5)


def test_who_still_computes_a_prompt_frees_nothing_soon():
    engine = server(gpu_blocks=128)
    engine.submit(asked("long", 1_900, output=30), 0.0)
    result = engine.step(0.0)

    assert engine.forecast(asked("a", 900, first=90_000), result.duration_s) > result.duration_s
