"""What a check found, and every code it can have."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ["CODES", "POOL", "Code", "Finding", "Severity", "finding"]

POOL: Final = ""  # the endpoint of a finding that concerns all of them, or the settings


class Severity(enum.StrEnum):
    """How bad it is."""

    ERROR = "error"  # requests fail, or a scorer sees nothing
    WARNING = "warning"  # a scorer or a view sees something that is not so
    INFO = "info"  # worth knowing; nothing has to be done


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of finding; its name and its severity are stable."""

    severity: Severity
    meaning: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    Attributes:
        code: one of `CODES`.
        severity: that of the code.
        endpoint: `host:port`, `POOL` for what concerns the pool or the settings.
        seen: the value that was seen, and where.
        why: the scorer or view that it misleads, and how.
        remedy: the flag of the engine, or the configuration key with its value.
    """

    code: str
    severity: Severity
    endpoint: str
    seen: str
    why: str
    remedy: str


def finding(code: str, endpoint: str, seen: str, why: str, remedy: str) -> Finding:
    """A finding with the severity of its code."""
    return Finding(code, CODES[code].severity, endpoint, seen, why, remedy)


def _error(meaning: str) -> Code:
    return Code(Severity.ERROR, meaning)


def _warning(meaning: str) -> Code:
    return Code(Severity.WARNING, meaning)


def _info(meaning: str) -> Code:
    return Code(Severity.INFO, meaning)


CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        # the endpoint
        "endpoint-unreachable": _error("no connection could be made"),
        "endpoint-not-ready": _error("/health does not answer, or says that the engine is not well"),
        "models-refused": _warning("/v1/models wants a key"),
        "models-unlisted": _warning("/v1/models does not answer with a list of models"),
        "version-untold": _info("the version is unknown, so version traps are not checked"),
        "engine-asleep": _error("the engine sleeps"),
        "adapters-served": _info("LoRA adapters are served"),
        "data-parallel": _warning("several engines share one address"),
        # metrics
        "metrics-unanswered": _error("there is no metrics page"),
        "metrics-unreadable": _error("what stands at the path of the metrics page is none"),
        "engine-unknown": _error("the page has no metric of an engine that epp knows"),
        "metric-missing": _error("a metric that a configured scorer reads is not on the page"),
        "metric-renamed": _info("a metric stands under a name that newer engines have dropped"),
        "metric-impossible": _warning("a metric has a value that cannot be true"),
        "metrics-slow": _warning("the page took longer than the interval between two scrapes"),
        "restart-untold": _info("the page has no process_start_time_seconds"),
        # cached prefixes
        "prefix-caching-off": _error("the engine caches no prefixes"),
        "block-size-untold": _warning("the page does not say how many tokens a block has"),
        "block-misaligned": _warning("the borders of hashed blocks and of engine blocks do not meet"),
        "block-huge": _info("the engine's hits land on borders far apart"),
        "gpu-capacity-untold": _warning("autoTune is on, but the engine does not tell its capacity"),
        "gpu-capacity-differs": _warning("the configured GPU capacity is not the engine's"),
        # CPU tier
        "cpu-tier-absent": _warning("a view of tier cpu is configured, but the engine offloads nothing"),
        "cpu-tier-unproven": _info(
            "a view of tier cpu is configured; this engine cannot show that it offloads"
        ),
        "cpu-tier-unscored": _warning("the engine offloads, but no view of tier cpu is configured"),
        "cpu-tier-small": _info("the CPU tier holds less than the GPU tier"),
        "cpu-capacity-differs": _warning("the configured CPU capacity is not the engine's"),
        "cpu-capacity-pending": _info("the engine tells its CPU capacity only after its first request"),
        "cpu-capacity-untold": _info("the CPU capacity cannot be checked"),
        "cpu-capacity-seed": _warning("lruCapacityPerServer is a guide's constant for another model"),
        # version traps
        "external-hits-untold": _info("hits in the CPU tier cannot be observed"),
        "offload-flag-unusable": _error("--kv-offloading-size does not work in this version"),
        "answers-offloaded": _info("generated tokens take room in the CPU tier"),
        # probe
        "probe-failed": _warning("a completion of one token failed"),
        "prompt-details-off": _warning("usage does not tell cached tokens"),
        # the pool
        "engines-differ": _info("the endpoints run different engines"),
        "versions-differ": _warning("the endpoints run different versions"),
        "models-differ": _warning("the endpoints serve different base models"),
        "adapters-differ": _warning("endpoints of one base model serve different adapters"),
        "context-differs": _warning("one model has different context lengths"),
        "block-sizes-differ": _warning("the endpoints have different block sizes"),
        "capacities-differ": _info("the endpoints hold different numbers of tokens"),
        "same-server-twice": _warning("two addresses lead to one server"),
        # settings
        "keep-alive-too-long": _warning("connections are kept longer than the engine keeps them"),
        "keep-alive-off": _info("every request opens a connection"),
        "scrape-interval-long": _warning("load metrics are read too rarely"),
        "rewrite-target-unserved": _error("a model rewrite leads to a model that nobody serves"),
        "staleness-long": _warning("old load metrics count as fresh for too long"),
    }
)
