"""The linear model is the sum that its documentation states."""

import dataclasses

import pytest

from epp.engine import KernelLatency, LinearLatency, StepLoad

PROFILE = LinearLatency(
    base_s=1.0, token_s=0.1, pair_s=0.01, context_s=0.001, link_bytes_per_s=1000.0, link_latency_s=0.5
)


def test_a_step_costs_base_tokens_pairs_and_context():
    load = StepLoad(computed_tokens=10, prefill_pairs=20.0, decodes=3, decode_context_tokens=100)

    assert PROFILE.step_s(load) == pytest.approx(1.0 + 1.0 + 0.2 + 0.1)


def test_a_transfer_costs_its_latency_and_its_size():
    assert PROFILE.load_s(2000) == pytest.approx(2.5)


@pytest.mark.parametrize("name", ["base_s", "token_s", "pair_s", "context_s", "link_latency_s"])
def test_negative_times_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must not be negative, got -1"):
        LinearLatency(**{name: -1})


def test_a_link_without_bandwidth_is_refused():
    with pytest.raises(ValueError, match="link_bytes_per_s must be positive, got 0"):
        LinearLatency(link_bytes_per_s=0)


def test_the_defaults_give_an_8b_model_on_an_h100():
    """A prompt of 8,192 tokens takes about a quarter of a second, a lone decode about 6 ms."""
    prefill = LinearLatency().step_s(StepLoad(8192, 8192 * 8192 / 2, 0, 0))
    decode = LinearLatency().step_s(StepLoad(1, 0.0, 1, 1000))

    assert prefill == pytest.approx(0.252, abs=0.002)
    assert decode == pytest.approx(0.0061, abs=0.0002)


KERNELS = KernelLatency(
    overhead_s=1.0,
    read_s=10.0,
    read_token_s=0.1,
    compute_s=2.0,
    compute_token_s=1.0,
    pair_s=0.01,
    decode_s=5.0,
    context_s=0.001,
    link_bytes_per_s=1000.0,
    link_latency_s=0.5,
)


def test_few_tokens_cost_the_reading_of_weights():
    assert KERNELS.step_s(StepLoad(5, 0.0, 5, 1000)) == pytest.approx(1.0 + 10.5 + 5.0 + 1.0)


def test_many_tokens_cost_their_computing():
    assert KERNELS.step_s(StepLoad(100, 200.0, 0, 0)) == pytest.approx(1.0 + 102.0 + 2.0)


def test_a_kernel_profile_has_the_link_of_the_linear_one():
    assert KERNELS.load_s(2000) == pytest.approx(2.5)


@pytest.mark.parametrize(
    "name", [f.name for f in dataclasses.fields(KERNELS) if f.name != "link_bytes_per_s"]
)
def test_negative_kernel_times_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must not be negative, got -1"):
        dataclasses.replace(KERNELS, **{name: -1})


def test_a_kernel_profile_without_bandwidth_is_refused():
    with pytest.raises(ValueError, match="link_bytes_per_s must be positive, got 0"):
        dataclasses.replace(KERNELS, link_bytes_per_s=0)


def test_scaled_steps_take_longer_and_transfers_do_not():
    twice = KERNELS.scaled(2.0)
    load = StepLoad(100, 200.0, 3, 40)

    assert twice.step_s(load) == pytest.approx(2 * KERNELS.step_s(load))
    assert twice.load_s(2000) == KERNELS.load_s(2000)


def test_a_factor_must_be_positive():
    with pytest.raises(ValueError, match="the factor must be positive, got 0"):
        KERNELS.scaled(0)
