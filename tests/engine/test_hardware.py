"""Bytes and times that follow from a model's config.json and a GPU."""

import dataclasses

import pytest

from epp.engine import GPUS, MODELS, StepLoad, kernel_latency, read_config

QWEN = read_config(MODELS["qwen3-32b"], "qwen3-32b")


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        ("qwen3-32b", 262_144),
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-70b", 327_680),
        ("gpt-oss-120b", 36_864),  # half of its layers have a sliding window
    ],
)
def test_bytes_of_a_token(model, bytes_per_token):
    assert read_config(MODELS[model]).kv_bytes_per_token() == bytes_per_token


def test_head_dim_of_the_file_comes_before_hidden_over_heads():
    """5120 / 64 = 80 would give 163,840 bytes, the published guide's error."""
    config = dict(MODELS["qwen3-32b"])
    del config["head_dim"]

    assert read_config(config).kv_bytes_per_token() == 163_840
    assert QWEN.head_dim == 128


@pytest.mark.parametrize(
    ("model", "billions", "active"),
    [
        ("qwen3-32b", 32.8, 31.2),
        ("llama-3.1-8b", 8.0, 7.0),
        ("llama-3.1-70b", 70.6, 68.5),
        ("gpt-oss-120b", 116.8, 4.5),
    ],
)
def test_parameters(model, billions, active):
    shape = read_config(MODELS[model])

    assert shape.parameters / 1e9 == pytest.approx(billions, abs=0.1)
    assert shape.active_parameters / 1e9 == pytest.approx(active, abs=0.1)


def test_fields_may_stand_in_a_text_config():
    wrapped = {"model_type": "vision", "text_config": dict(MODELS["llama-3.1-8b"])}

    assert read_config(wrapped).kv_bytes_per_token() == 131_072


@pytest.mark.parametrize("value", [None, 0, -1, "64", True, 2.5])
def test_a_missing_or_bad_field_is_named(value):
    with pytest.raises(ValueError, match=f"num_hidden_layers must be a positive integer, got {value!r}"):
        read_config(MODELS["qwen3-32b"] | {"num_hidden_layers": value})


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"torch_dtype": "float32"}, 4.0),
        ({"torch_dtype": None, "dtype": "bfloat16"}, 2.0),
        ({"torch_dtype": "something"}, 2.0),
        ({"quantization_config": {"quant_method": "fp8"}}, 1.0),
        ({"quantization_config": {"quant_method": "unknown"}}, 1.0),
    ],
)
def test_bytes_of_a_weight(fields, size):
    assert read_config(MODELS["qwen3-32b"] | fields).weight_bytes == size


@pytest.mark.parametrize(
    ("tokens", "seconds"), [(256, 0.0204), (1_024, 0.0620), (2_048, 0.1229), (8_192, 0.520), (30_000, 2.382)]
)
def test_a_prefill_of_qwen3_32b_on_two_h100(tokens, seconds):
    """In chunks of 8,192 tokens; llm-d measured 15,928 tokens a second for one chunk."""
    latency = kernel_latency(QWEN, GPUS["h100"], 2)
    chunks = [(start, min(8_192, tokens - start)) for start in range(0, tokens, 8_192)]
    total = sum(latency.step_s(StepLoad(c, c * (start + c / 2), 0, 0)) for start, c in chunks)

    assert total == pytest.approx(seconds, rel=0.02)


@pytest.mark.parametrize(
    ("batch", "context", "seconds"), [(4, 1_000, 0.0154), (8, 32_000, 0.0266), (32, 8_000, 0.0271)]
)
def test_a_decode_of_qwen3_32b_on_two_h100(batch, context, seconds):
    latency = kernel_latency(QWEN, GPUS["h100"], 2)

    assert latency.step_s(StepLoad(batch, 0.0, batch, batch * context)) == pytest.approx(seconds, rel=0.03)


def test_what_the_ratios_give_is_close_to_what_was_measured():
    derived = kernel_latency(dataclasses.replace(QWEN, name="unknown"), GPUS["h100"], 2)
    measured = kernel_latency(QWEN, GPUS["h100"], 2)

    for load in (
        StepLoad(1, 0.0, 1, 1_000),
        StepLoad(64, 0.0, 64, 500_000),
        StepLoad(8_192, 8_192**2 / 2, 0, 0),
    ):
        assert derived.step_s(load) == pytest.approx(measured.step_s(load), rel=0.03)


def test_one_gpu_pays_nothing_for_communication():
    shape = read_config(MODELS["llama-3.1-8b"], "llama-3.1-8b")
    one, two = (kernel_latency(shape, GPUS["h200"], tp) for tp in (1, 2))

    assert one.step_s(StepLoad(1, 0.0, 1, 1)) == pytest.approx(0.0057, abs=0.0003)
    assert two.compute_token_s > one.compute_token_s / 2


def test_a_mixture_of_experts_reads_a_part_of_its_weights():
    shape = read_config(MODELS["gpt-oss-120b"], "gpt-oss-120b")
    latency = kernel_latency(shape, GPUS["h100"], 1)
    all_weights_s = shape.parameters * shape.weight_bytes / (3.35e12 * 0.81)

    assert 0.5 * all_weights_s < latency.read_s < 0.7 * all_weights_s


def test_tp_below_one_is_refused():
    with pytest.raises(ValueError, match="tp must be at least 1, got 0"):
        kernel_latency(QWEN, GPUS["h100"], 0)
