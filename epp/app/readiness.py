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
    files: Mapping[str, str] | None = None,
    standby: str = "",
) -> Readiness:
    """Ready when an endpoint can be picked, nothing essential has died and no drain has begun.

    Sources and files that cannot be used leave in use what was: they stand in the detail. `files` tells of
    what is watched whether it is in use as it is; `standby` why another replica is to be asked.
    """
    endpoints = core.table.pool.endpoints
    usable = [e for e in endpoints if _state(core, e, now) == "ready"]
    reasons: list[str] = []
    if draining:
        reasons.append("shutting down")
    if standby:
        reasons.append(standby)
    reasons += [f"background task {name} died: {why}" for name, why in failed.items()]
    if not endpoints:
        reasons.append("no endpoint is known; detail says what discovery found")
    elif not usable:
        reasons.append("no endpoint is ready; detail says why for each")
    detail: dict[str, Any] = {
        "endpoints": {e.address: _state(core, e, now) for e in endpoints},
        "discovery": {s.name: {"endpoints": s.endpoints, "problem": s.problem} for s in sources},
        "config_hash": core.config.hash,
        "config_problems": dict(reload.problems) if reload is not None else {},
    }
    if files:
        detail["files"] = dict(files)
    return Readiness(not reasons, tuple(reasons), detail)


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
