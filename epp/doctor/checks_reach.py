"""Does the endpoint answer, and what does it say it is."""

from collections.abc import Iterator

from epp.doctor.finding import Finding, finding
from epp.doctor.observation import Answer, Observation

__all__ = ["check_reach", "is_unreachable"]

_NOT_SERVED = (404, 405)
_KEY_WANTED = (401, 403)


def is_unreachable(seen: Observation) -> bool:
    """No connection could be made, so nothing else is known."""
    return seen.health.unreachable


def check_reach(seen: Observation) -> Iterator[Finding]:
    """Connection, health, models, version, sleep, adapters."""
    if is_unreachable(seen):
        yield finding(
            "endpoint-unreachable",
            seen.address,
            f"{seen.spec.url}: {seen.health.fault}",
            "requests go to the other endpoints; after a few failures this one is ejected",
            "start the server, or correct --endpoint; vLLM opens its port only when the model is loaded",
        )
        return
    yield from _health(seen)
    yield from _models(seen)
    yield from _version(seen)
    yield from _sleep(seen)
    yield from _adapters(seen)


def _well(health: Answer) -> bool:
    # epp itself never asks /health: a server without the route is not ill.
    return health.ok or health.status in _NOT_SERVED


def _health(seen: Observation) -> Iterator[Finding]:
    if not _well(seen.health):
        yield finding(
            "endpoint-not-ready",
            seen.address,
            seen.health.shown("/health"),
            "requests that are sent there fail and are repeated elsewhere",
            "wait until it has started; a vLLM that answers 503 has lost its engine and must be restarted",
        )


def _models(seen: Observation) -> Iterator[Finding]:
    if seen.models is not None:
        return
    why = "while its models are unknown the endpoint is a candidate for every model name"
    if seen.models_list.status in _KEY_WANTED:
        yield finding(
            "models-refused",
            seen.address,
            seen.models_list.shown("/v1/models"),
            why,
            "set endpointKey or endpointKeyFile to the engine's --api-key",
        )
    else:
        yield finding(
            "models-unlisted",
            seen.address,
            seen.models_fault or seen.models_list.shown("/v1/models"),
            why,
            "let GET /v1/models reach the engine itself",
        )


def _version(seen: Observation) -> Iterator[Finding]:
    if seen.version is not None or seen.engine not in {"vllm", None}:
        return
    told = f"version {seen.version_text!r}" if seen.version_text else seen.version_page.shown("/version")
    yield finding(
        "version-untold",
        seen.address,
        told,
        "what this version's metrics and offload flags lack is not checked",
        "none needed; compare your version with docs/scraping.md",
    )


def _sleep(seen: Observation) -> Iterator[Finding]:
    if seen.metrics is not None and seen.metrics.awake is False:
        yield finding(
            "engine-asleep",
            seen.address,
            'vllm:engine_sleep_state{sleep_state="awake"} is 0',
            "it is no candidate until it wakes, and its cached prefixes are gone",
            "POST /wake_up to the engine",
        )


def _adapters(seen: Observation) -> Iterator[Finding]:
    if seen.adapters:
        yield finding(
            "adapters-served",
            seen.address,
            "adapters in /v1/models: " + ", ".join(model.id for model in seen.adapters),
            "each adapter has cached prefixes of its own; requests for it go only to endpoints that list it",
            "load each adapter at every endpoint that shall serve it",
        )
