"""approx-prefix-cache-producer: one view of the prefix index, and the parameters that describe it.

The producer holds no index itself: composition makes one view per producer over the one tree of block runs,
and the director puts the view's `PrefixMatch` under the producer's name into the cycle.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from epp.errors import ConfigError, ConfigProblem
from epp.scheduling.contracts import BuildContext
from epp.scheduling.registry import param

__all__ = ["DEFAULT_PRODUCER", "ApproxPrefixCacheProducer", "PrefixIndexParameters", "resolve_producer"]

DEFAULT_PRODUCER: Final = "approx-prefix-cache-producer"


@dataclass(frozen=True, slots=True)
class PrefixIndexParameters:
    """Parameters of one view of the prefix index."""

    auto_tune: bool = param(
        True,
        key="autoTune",
        doc="Take the capacity from the engine's metrics where they tell it.",
    )
    block_size_bytes: int | None = param(
        None,
        key="blockSize",
        doc="Bytes of prompt in one hashed block; 256 when neither size is given.",
        above=0,
    )
    block_size_tokens: int | None = param(
        None, key="blockSizeTokens", doc="The block size in tokens, at 4 bytes a token.", above=0
    )
    max_prefix_blocks: int | None = param(
        None,
        key="maxPrefixBlocksToMatch",
        doc="Hash at most this many blocks of a prompt; 0 or absent: no cap in blocks.",
        minimum=0,
    )
    max_prefix_tokens: int = param(
        131_072,
        key="maxPrefixTokensToMatch",
        doc="Hash at most this many tokens of a prompt; 0: no cap.",
        minimum=0,
    )
    lru_capacity_blocks: int = param(
        31_250,
        key="lruCapacityPerServer",
        doc="Capacity of one endpoint's tier in engine blocks, when autoTune is off or finds nothing.",
        above=0,
    )
    tier: str | None = param(
        None,
        key="tier",
        doc=(
            "The tier this view stands for. Absent: an instance with autoTune off beside an auto-tuned one "
            "is cpu, any other gpu."
        ),
        choices=("gpu", "cpu"),
    )


@dataclass(frozen=True, slots=True)
class ApproxPrefixCacheProducer:
    """A named view of the prefix index."""

    type: ClassVar[str] = "approx-prefix-cache-producer"
    name: str
    parameters: PrefixIndexParameters

    @classmethod
    def build(
        cls, name: str, parameters: PrefixIndexParameters, _context: BuildContext
    ) -> "ApproxPrefixCacheProducer":
        """Factory for the registry."""
        return cls(name, parameters)


def resolve_producer(name: str, wanted: str | None, context: BuildContext) -> str:
    """The producer that the plugin `name` reads.

    The one it names; else the view of its own, which composition makes under the plugin's name for a scorer
    with index parameters; else the default producer.

    Raises:
        ConfigError: it names a producer that does not exist.
    """
    if wanted and wanted not in context.producers:
        known = ", ".join(sorted(context.producers)) or "none"
        path = f"plugins[{name}].parameters.prefixMatchInfoProducerName"
        remedy = f"declare an {DEFAULT_PRODUCER} of that name; producers here: {known}"
        raise ConfigError([ConfigProblem(path, f"no producer is named {wanted!r}", remedy)])
    if wanted:
        return wanted
    return name if name in context.producers else DEFAULT_PRODUCER
