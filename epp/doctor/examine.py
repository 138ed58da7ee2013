"""All checks in their order."""

from collections.abc import Iterator, Sequence

from epp.config.effective import EffectiveConfig
from epp.config.settings import Settings
from epp.doctor.checks_cache import check_cache
from epp.doctor.checks_cpu_tier import check_cpu_tier
from epp.doctor.checks_engine import check_engine
from epp.doctor.checks_metrics import check_metrics
from epp.doctor.checks_pool import check_pool
from epp.doctor.checks_reach import check_reach, is_unreachable
from epp.doctor.checks_settings import check_settings
from epp.doctor.finding import Finding, Severity
from epp.doctor.observation import Observation

__all__ = ["examine", "exit_status"]


def examine(pool: Sequence[Observation], config: EffectiveConfig, settings: Settings) -> tuple[Finding, ...]:
    """Findings: each endpoint's in the order of `pool`, then those of the pool and the settings."""
    endpoints = [found for seen in pool for found in _of_endpoint(seen, config, settings)]
    return (*endpoints, *check_pool(pool), *check_settings(pool, config, settings))


def exit_status(findings: Sequence[Finding]) -> int:
    """3 with an error, else 1 with a warning, else 0."""
    severities = {found.severity for found in findings}
    if Severity.ERROR in severities:
        return 3
    return 1 if Severity.WARNING in severities else 0


def _of_endpoint(seen: Observation, config: EffectiveConfig, settings: Settings) -> Iterator[Finding]:
    yield from check_reach(seen)
    if is_unreachable(seen):
        return
    yield from check_metrics(seen, config, settings)
    yield from check_cache(seen, config)
    yield from check_cpu_tier(seen, config)
    yield from check_engine(seen, config)
