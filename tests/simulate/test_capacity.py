"""Blocks for bytes, bytes for blocks, and figures that disagree."""

import pytest

from epp.engine import GPUS, MODELS, read_config
from epp.simulate.capacity import Given, capacity

QWEN = read_config(MODELS["qwen3-32b"], "qwen3-32b")
H100 = GPUS["h100"]


def test_the_published_figures_are_found_wrong():
    """41,000 blocks are 172 GB and not 100, since a token takes 256 KiB and not 160."""
    given = Given(tp=2, gpu_blocks=9_271, cpu_blocks=41_000, cpu_bytes=100e9, bytes_per_token=163_840)
    found = capacity(QWEN, H100, given)

    assert (found.bytes_per_token, found.bytes_per_block) == (262_144, 4_194_304)
    assert (found.gpu_tokens, found.cpu_tokens) == (148_336, 656_000)
    assert round(found.cpu_bytes / 1e9) == 172
    assert found.warnings[0] == (
        "a token takes 262,144 bytes, not 163,840; that is hidden_size / num_attention_heads = 80 as head size, "
        "but head_dim is 128"
    )
    assert found.warnings[1] == "41,000 CPU blocks are 172 GB; 100 GB are 23,841 blocks"


def test_figures_that_agree_give_no_warning():
    given = Given(tp=2, gpu_blocks=9_271, cpu_blocks=23_841, cpu_bytes=100e9, bytes_per_token=262_144)

    assert capacity(QWEN, H100, given).warnings == ()


def test_blocks_are_estimated_as_the_engine_would_find_them():
    """The published servers have 9,271 blocks at a share of 0.65."""
    found = capacity(QWEN, H100, Given(tp=2, gpu_memory_utilization=0.65))

    assert found.gpu_blocks_estimated
    assert found.gpu_blocks == pytest.approx(9_271, rel=0.05)
    assert found.cpu_blocks is None


def test_bytes_of_host_memory_are_blocks_and_settings():
    found = capacity(QWEN, H100, Given(tp=2, gpu_blocks=9_271, cpu_bytes=107_374_182_400))

    assert found.cpu_blocks == 25_600
    assert found.settings == (
        "GPU view of the prefix index: autoTune: true (the engine tells its size), else lruCapacityPerServer: 9271",
        "CPU view of the prefix index: lruCapacityPerServer: 25600 (engine blocks of 16 tokens)",
        "vLLM native offload: --kv-offloading-backend native --kv-offloading-size 100.0",
        "LMCache: LMCACHE_MAX_LOCAL_CPU_SIZE=50.0 (GiB, for each of 2 ranks)",
        'LMCache: --kv-transfer-config \'{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}\'',
    )


def test_fp8_keys_and_values_take_half():
    assert capacity(QWEN, H100, Given(tp=2, element_bytes=1.0)).bytes_per_token == 131_072


def test_more_blocks_than_memory_and_more_ranks_than_heads_are_told():
    found = capacity(QWEN, H100, Given(tp=16, gpu_blocks=1_000_000, bytes_per_token=5))

    assert found.warnings[0] == "a token takes 262,144 bytes, not 5"
    assert found.warnings[1].startswith(
        "1,000,000 GPU blocks and the weights are 4260 GB, more than 16 x 86 GB"
    )
    assert found.warnings[2].startswith("tp 16 is above the 8 KV heads")


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"weights of 61 GiB do not fit 1 x h100 at 0\.7"):
        capacity(QWEN, H100, Given(gpu_memory_utilization=0.7))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tp": 0}, "tp must be at least 1, got 0"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization must be above 0 and at most 1, got 1.5"),
        ({"cpu_bytes": -1.0}, "cpu_bytes must be positive, got -1"),
    ],
)
def test_bad_figures_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Given(**fields)
