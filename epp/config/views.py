"""Views of the prefix index: block size, caps, capacity, and which tier each stands for."""

from collections.abc import Sequence
from typing import Final

from epp.config.effective import Tier, View
from epp.config.producers import Producer
from epp.config.reader import Reader
from epp.scheduling.registry import params_of

__all__ = ["build_views"]

_BYTES_PER_TOKEN: Final = 4  # fixed: block borders never move with the learned ratio
_DEFAULT_BLOCK_BYTES: Final = 256
_ENGINE_BLOCK_TOKENS: Final = 16
_INDEX_ENTRY_BYTES: Final = 42  # of the radix tree of block runs


def build_views(reader: Reader, producers: Sequence[Producer]) -> tuple[View, ...]:
    """One view a producer."""
    views = tuple(_view(reader, producer, producers) for producer in producers)
    if views and all(view.tier == "cpu" for view in views):
        reader.warn("plugins", "every view of the prefix index is of tier cpu, so nothing predicts GPU hits")
    return views


def _view(reader: Reader, producer: Producer, producers: Sequence[Producer]) -> View:
    tier, rule = _tier(producer, producers)
    parameters = producer.parameters
    block_bytes = _block_bytes(reader, producer)
    _check_token_cap(reader, producer, block_bytes)
    _warn_tiny_blocks(reader, producer, block_bytes)
    _note_provenance(reader, producer, rule)
    return View(
        producer=producer.name,
        tier=tier,
        tier_rule=rule,
        block_bytes=block_bytes,
        max_blocks=_max_blocks(producer, block_bytes),
        auto_tune=parameters.auto_tune,
        capacity_blocks=parameters.lru_capacity_blocks,
        parameters=parameters,
        origin=producer.origin,
    )


def _tier(producer: Producer, producers: Sequence[Producer]) -> tuple[Tier, str]:
    """The tier and the rule that gives it; names are never looked at."""
    given = producer.parameters.tier
    if given is not None:
        return ("cpu" if given == "cpu" else "gpu"), f"tier: {given} is written"
    tuned = next((p.name for p in producers if p is not producer and p.parameters.auto_tune), None)
    if producer.parameters.auto_tune:
        return "gpu", "autoTune is on"
    if tuned is not None:
        return "cpu", f"autoTune is off, beside {tuned} where it is on"
    return "gpu", "autoTune is off, and no other view is auto-tuned"


def _block_bytes(reader: Reader, producer: Producer) -> int:
    size, tokens = producer.parameters.block_size_bytes, producer.parameters.block_size_tokens
    if size and tokens and size != tokens * _BYTES_PER_TOKEN:
        message = f"{tokens} tokens are {tokens * _BYTES_PER_TOKEN} bytes, but blockSize says {size}"
        reader.problem(*producer.where("blockSizeTokens"), message, "keep one of them")
    if size:
        return size
    return tokens * _BYTES_PER_TOKEN if tokens else _DEFAULT_BLOCK_BYTES


def _max_blocks(producer: Producer, block_bytes: int) -> int | None:
    """The smaller cap; 0 is no cap."""
    tokens, blocks = producer.parameters.max_prefix_tokens, producer.parameters.max_prefix_blocks
    caps = [tokens * _BYTES_PER_TOKEN // block_bytes] if tokens else []
    caps += [blocks] if blocks else []
    return min(caps, default=None)


def _check_token_cap(reader: Reader, producer: Producer, block_bytes: int) -> None:
    tokens = producer.parameters.max_prefix_tokens
    if tokens and tokens * _BYTES_PER_TOKEN < block_bytes:
        message = (
            f"{tokens} tokens are less than one block of {block_bytes} bytes, so nothing would be hashed"
        )
        reader.problem(*producer.where("maxPrefixTokensToMatch"), message, "raise it, or write 0 for no cap")


def _warn_tiny_blocks(reader: Reader, producer: Producer, block_bytes: int) -> None:
    if block_bytes >= _DEFAULT_BLOCK_BYTES:
        return
    capacity_bytes = producer.parameters.lru_capacity_blocks * _ENGINE_BLOCK_TOKENS * _BYTES_PER_TOKEN
    entries = capacity_bytes // block_bytes
    megabytes = entries * _INDEX_ENTRY_BYTES / 1e6
    times = _DEFAULT_BLOCK_BYTES / block_bytes
    key = "blockSize" if producer.parameters.block_size_bytes else "blockSizeTokens"
    reader.warn(
        producer.path_of(key),
        f"blocks of {block_bytes} bytes need up to {entries} index entries ({megabytes:.1f} MB) an endpoint, "
        f"{times:.3g} times as many as the default of {_DEFAULT_BLOCK_BYTES} bytes; "
        "the engine's own block size gains nothing here",
    )


def _note_provenance(reader: Reader, producer: Producer, rule: str) -> None:
    """Where each value of the view comes from, under the producer's name."""
    view_path = f"views[{producer.name}]"
    reader.provenance[view_path] = producer.origin
    for key in params_of(type(producer.parameters)):
        reader.provenance[f"{view_path}.{key}"] = reader.provenance.get(producer.path_of(key), "default")
    if producer.parameters.tier is None:
        reader.provenance[f"{view_path}.tier"] = f"implied: {rule}"
