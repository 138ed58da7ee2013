"""Whether requests should be sent to this router, and if not, why."""

from collections.abc import Mapping, Sequence
from typing import Any

from epp.api.ports import Readiness
from epp.app.reload import ReloadReport
from epp.compose import Core
from epp.discovery.discovery import SourceReport
from epp.endpoints.health import takes_requests
from epp.endpoints.types import Endpoint

__all__ = ["readiness"]


def readiness(
    core: Core,
    now: float,
    *,
    draining: bool,
    failed: Mapping[str, str],
    sources: Sequence[SourceReport] = (),
    reload: ReloadReport | None = None,
) -> Readiness:
    """Ready when an endpoint can be picked, nothing essential has died and no drain has begun.

    Sources and configuration files that cannot be read leave what was: they stand in the detail, and sources
    among the reasons where no endpoint is known.
    """
    endpoints = core.table.pool.endpoints
    usable = [e for e in endpoints if _state(core, e, now) == "ready"]
    reasons: list[str] = []
    if draining:
        reasons.append("shutting down")
    reasons += [f"background task {name} died: {why}" for name, why in failed.items()]
    if not endpoints:
        reasons.append("no endpoint is known; " + ("; ".join(map(_found, sources)) or "none is configured"))
    elif not usable:
        reasons.append("no endpoint is ready; detail says why for each")
    detail: dict[str, Any] = {
        "endpoints": {e.address: _state(core, e, now) for e in endpoints},
        "discovery": {s.name: {"endpoints": s.endpoints, "problem": s.problem} for s in sources},
        "config_hash": core.config.hash,
        "config_problems": dict(reload.problems) if reload is not None else {},
    }
    return Readiness(not reasons, tuple(reasons), detail)


def _found(source: SourceReport) -> str:
    """What a source without endpoints has to say."""
    return f"{source.name}: {source.problem or 'lists none'}"


def _state(core: Core, endpoint: Endpoint, now: float) -> str:
    """`ready`, or why the endpoint gets no requests."""
    if endpoint.draining:
        return "draining"
    if not takes_requests(endpoint):
        return "asleep"
    ejection = core.state.health.ejected(endpoint, now)
    if ejection is not None:
        return f"ejected: {ejection.cause}"
    scraped = core.table.reports(endpoint.address)
    if scraped is not None and scraped.scraped_at is None and scraped.failures:
        return "unreachable: no scrape has succeeded"
    return "ready"
