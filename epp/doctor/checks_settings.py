"""Do the settings of the router fit its endpoints."""

from collections.abc import Iterator, Sequence
from typing import Final

from epp.config.effective import EffectiveConfig
from epp.config.settings import Settings
from epp.doctor.checks_metrics import interval_s
from epp.doctor.finding import POOL, Finding, finding
from epp.doctor.needs import scorers_of_metrics
from epp.doctor.observation import Observation

__all__ = ["check_settings"]

_VLLM_KEEP_ALIVE_S: Final = 5.0  # uvicorn's, VLLM_HTTP_TIMEOUT_KEEP_ALIVE
_LONG_INTERVAL_S: Final = 1.0
_LONG_STALENESS_S: Final = 10.0


def check_settings(
    pool: Sequence[Observation], config: EffectiveConfig, settings: Settings
) -> Iterator[Finding]:
    """Keep-alive, scraping and model rewrites."""
    yield from _keep_alive(pool, settings)
    yield from _rewrites(pool, settings)
    readers = [name for names in scorers_of_metrics(config).values() for name in names]
    if readers:
        yield from _interval(", ".join(readers), settings)
        yield from _staleness(", ".join(readers), settings)


def _keep_alive(pool: Sequence[Observation], settings: Settings) -> Iterator[Finding]:
    kept_s = settings.upstream.keep_alive_s
    if kept_s == 0:
        yield finding(
            "keep-alive-off",
            POOL,
            "upstream.keepAlive: 0",
            "a new connection for each request costs a round trip, with TLS three",
            "upstream.keepAlive: 3s",
        )
        return
    theirs = {seen.address: closes for seen in pool if (closes := _closes_after_s(seen)) is not None}
    if not theirs or kept_s < min(theirs.values()):
        return
    shortest_s = min(theirs.values())
    address = next(address for address, seconds in theirs.items() if seconds == shortest_s)
    yield finding(
        "keep-alive-too-long",
        POOL,
        f"upstream.keepAlive: {kept_s:g}s, {address} closes idle connections after {shortest_s:g} s",
        "requests meet connections that are being closed; each such request is sent again on a fresh one",
        f"upstream.keepAlive: {shortest_s * 0.6:g}s, or a longer VLLM_HTTP_TIMEOUT_KEEP_ALIVE at the engines",
    )


def _rewrites(pool: Sequence[Observation], settings: Settings) -> Iterator[Finding]:
    if any(seen.models is None for seen in pool):
        return
    served = {model.id for seen in pool for model in seen.models or ()}
    for rewrite in settings.model_rewrite:
        missing = [target for target, _ in rewrite.targets if target not in served]
        if missing and served:
            yield finding(
                "rewrite-target-unserved",
                POOL,
                f"modelRewrite: {rewrite}; no endpoint lists {', '.join(missing)}",
                "requests that go there are refused with 404",
                f"a target among {', '.join(sorted(served))}, or --served-model-name at the engines",
            )


def _closes_after_s(seen: Observation) -> float | None:
    """What the server says, else what vLLM does unless told otherwise."""
    answers = (seen.health, seen.page, seen.models_list, seen.version_page)
    told = [answer.keep_alive_s for answer in answers if answer.keep_alive_s is not None]
    if told:
        return min(told)
    return _VLLM_KEEP_ALIVE_S if seen.engine == "vllm" else None


def _interval(readers: str, settings: Settings) -> Iterator[Finding]:
    seconds = interval_s(settings)
    if seconds > _LONG_INTERVAL_S:
        yield finding(
            "scrape-interval-long",
            POOL,
            f"metrics.refreshInterval: {seconds:g}s; a page is fresh for {3 * seconds:g} s or longer",
            f"{readers}: load changes within a second, and all requests of an interval see the same",
            "leave metrics.refreshInterval out (500ms idle, 200ms under load)",
        )


def _staleness(readers: str, settings: Settings) -> Iterator[Finding]:
    threshold_s = settings.metrics.staleness_threshold_s
    if threshold_s is not None and threshold_s > _LONG_STALENESS_S:
        yield finding(
            "staleness-long",
            POOL,
            f"metrics.stalenessThreshold: {threshold_s:g}s",
            f"{readers}: an endpoint whose page no longer comes keeps the load of its last page for so long",
            "leave metrics.stalenessThreshold out (2s, or three times refreshInterval)",
        )
