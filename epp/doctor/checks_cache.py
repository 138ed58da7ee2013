"""Can the GPU tier be predicted: prefix caching, block borders, capacity."""

import math
from collections.abc import Iterator
from typing import Final

from epp.config.effective import EffectiveConfig, View
from epp.doctor.finding import Finding, finding
from epp.doctor.needs import views_of
from epp.doctor.observation import Observation
from epp.endpoints.types import EndpointMetrics

__all__ = ["DEFAULT_BLOCK_TOKENS", "block_tokens", "check_cache", "differs"]

DEFAULT_BLOCK_TOKENS: Final = 16  # what epp takes where the page does not say
_BYTES_PER_TOKEN: Final = 4  # of blockSizeTokens
_HUGE_TOKENS: Final = 256
_TOLERANCE: Final = 0.10


def check_cache(seen: Observation, config: EffectiveConfig) -> Iterator[Finding]:
    """What concerns views of the prefix index; nothing without one, or without a page."""
    metrics = seen.metrics
    if metrics is None or metrics.engine is None or not config.views:
        return
    yield from _caching(seen, metrics, config)
    yield from _blocks(seen, metrics, config)
    for view in views_of(config, "gpu"):
        yield from _capacity(seen, metrics, view)


def block_tokens(metrics: EndpointMetrics) -> int:
    """The engine's block, as epp takes it."""
    return metrics.block_tokens or DEFAULT_BLOCK_TOKENS


def differs(configured: float, real: float) -> bool:
    """By more than a tenth, as the router warns."""
    return abs(configured / real - 1.0) > _TOLERANCE


def _caching(seen: Observation, metrics: EndpointMetrics, config: EffectiveConfig) -> Iterator[Finding]:
    if metrics.prefix_caching is False:
        yield finding(
            "prefix-caching-off",
            seen.address,
            'vllm:cache_config_info{enable_prefix_caching="False"}',
            f"{_named(config.views)}: every predicted hit is computed again, and the score draws requests "
            "together for nothing",
            "start vLLM with --enable-prefix-caching (without --no-enable-prefix-caching)",
        )


def _blocks(seen: Observation, metrics: EndpointMetrics, config: EffectiveConfig) -> Iterator[Finding]:
    if metrics.block_tokens is None:
        yield finding(
            "block-size-untold",
            seen.address,
            f"no block size on {seen.page_path}",
            f"{_named(config.views)}: blocks of {DEFAULT_BLOCK_TOKENS} tokens are assumed for capacities and "
            "hits",
            "scrape the engine's own page; vLLM tells it in vllm:cache_config_info",
        )
        return
    unit = metrics.hit_unit_tokens or metrics.block_tokens
    if unit >= _HUGE_TOKENS:
        yield _huge(seen, unit, config)
        return
    hash_unit = _hash_unit(seen, metrics.block_tokens)
    for view in config.views:
        hit_unit = unit if view.tier == "gpu" else metrics.cpu_hit_unit_tokens or metrics.block_tokens
        yield from _misaligned(seen, view, hash_unit, hit_unit)


def _hash_unit(seen: Observation, block: int) -> int:
    told = seen.cache_config.get("hash_block_size", "")
    return int(told) if told.isdecimal() and int(told) else block


def _huge(seen: Observation, unit: int, config: EffectiveConfig) -> Finding:
    return finding(
        "block-huge",
        seen.address,
        f"hits land on multiples of {unit} tokens",
        f"{_named(config.views)}: prompts that share fewer than {unit} tokens never hit (hybrid models have "
        "such blocks); predictions are rounded down to it",
        f"none needed; blockSizeTokens: {unit} makes the index smaller and its borders exact for token-id "
        "prompts",
    )


def _misaligned(seen: Observation, view: View, hash_unit: int, unit: int) -> Iterator[Finding]:
    tokens = view.block_bytes // _BYTES_PER_TOKEN
    if all(_fits(tokens, engine) for engine in (hash_unit, unit)):
        return
    step = math.lcm(hash_unit, unit)
    wanted = -(-tokens // step) * step
    yield finding(
        "block-misaligned",
        seen.address,
        f"engine blocks of {hash_unit} tokens, hits on multiples of {unit}; view {view.producer} hashes "
        f"{view.block_bytes} bytes = {tokens} tokens",
        f"view {view.producer}: borders meet only at common multiples, so hits are predicted too short by up "
        "to a block",
        f"blockSizeTokens: {wanted} in the parameters of {view.producer}, a multiple of the engine's",
    )


def _fits(tokens: int, engine_tokens: int) -> bool:
    """One is a multiple of the other, so that borders of the larger are borders of the smaller."""
    return max(tokens, engine_tokens) % max(1, min(tokens, engine_tokens)) == 0


def _capacity(seen: Observation, metrics: EndpointMetrics, view: View) -> Iterator[Finding]:
    reported = metrics.gpu_capacity_tokens
    block = block_tokens(metrics)
    configured = view.capacity_blocks * block
    if reported is None and view.auto_tune:
        yield finding(
            "gpu-capacity-untold",
            seen.address,
            f"no capacity on {seen.page_path}; lruCapacityPerServer: {view.capacity_blocks} is used, "
            f"{configured} tokens",
            f"view {view.producer}: prefixes are thought to be held for too long, or forgotten too early",
            "scrape the engine's own page (vllm:cache_config_info), or write lruCapacityPerServer as the "
            'number of GPU blocks that vLLM logs at its start ("GPU KV cache size" ÷ block)',
        )
    elif reported is not None and not view.auto_tune and differs(configured, reported):
        yield finding(
            "gpu-capacity-differs",
            seen.address,
            f"lruCapacityPerServer: {view.capacity_blocks} blocks are {configured} tokens, the engine has "
            f"{reported}: {configured / reported:.2f} times",
            f"view {view.producer}: "
            + (
                "predicts hits of evicted prefixes" if configured > reported else "forgets what is still held"
            ),
            f"autoTune: true, or lruCapacityPerServer: {reported // block}, in the parameters of "
            f"{view.producer}",
        )


def _named(views: tuple[View, ...]) -> str:
    word = "view" if len(views) == 1 else "views"
    return f"{word} {', '.join(view.producer for view in views)}"
