"""KV bytes of well-known models."""

import pytest

from epp.doctor.kv_sizes import GIB, KvSize, blocks_in, kv_size


@pytest.mark.parametrize(
    ("name", "kib", "blocks"),
    [
        ("meta-llama/Llama-3.2-1B-Instruct", 32, 204_800),
        ("Qwen/Qwen2.5-7B-Instruct", 56, 117_028),
        ("Qwen/Qwen3-30B-A3B", 96, 68_266),
        ("Qwen/Qwen3-0.6B", 112, 58_514),
        ("meta-llama/Llama-3.1-8B-Instruct", 128, 51_200),
        ("Qwen/Qwen3-8B-FP8", 144, 45_511),
        ("Qwen/Qwen3-14B", 160, 40_960),
        ("Qwen/Qwen3-235B-A22B", 188, 34_859),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 248, 26_425),
        ("Qwen/Qwen3-32B", 256, 25_600),
        ("meta-llama/Llama-3.3-70B-Instruct", 320, 20_480),
        ("meta-llama/Llama-3.1-405B", 504, 13_003),
    ],
)
def test_blocks_of_16_tokens_in_100_gib(name, kib, blocks):
    size = kv_size([name], "auto")

    assert size.bytes_per_token == kib * 1024
    assert blocks_in(100 * GIB, size, 16) == blocks


def test_fp8_takes_half():
    assert kv_size(["Qwen/Qwen3-32B"], "fp8_e5m2").bytes_per_token == 128 * 1024


def test_latent_attention_keeps_one_vector_for_keys_and_values():
    assert kv_size(["deepseek-ai/DeepSeek-V3"], "auto").bytes_per_token == 70_272


def test_the_first_known_name_counts_and_paths_are_names_too():
    assert kv_size(["prod", "/models/qwen3-32b/"], "auto").model == "Qwen3-32B"


@pytest.mark.parametrize("name", ["tiny", "", "MyQwen3-32B2", "Qwen3-VL-32B"])
def test_other_models_are_unknown(name):
    assert kv_size([name], "auto") is None


def test_a_block_is_rounded_up_to_a_page():
    assert blocks_in(8192 * 3, KvSize("m", 4097), 1) == 3
