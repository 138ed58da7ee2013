"""What the parts report of discovery, reloading and the shadow, as metrics show it."""

from collections.abc import Iterable

from epp.app.reload import ReloadReport
from epp.compose import Core
from epp.discovery.discovery import SourceReport
from epp.observability.change_metrics import ReloadState, ShadowState, SourceState

__all__ = ["reload_state", "shadow_state", "source_states"]


def source_states(reports: Iterable[SourceReport]) -> list[SourceState]:
    """How each discovery source is doing."""
    return [SourceState(r.name, r.endpoints, r.failures, ok=r.problem is None) for r in reports]


def reload_state(report: ReloadReport) -> ReloadState:
    """How reloading goes."""
    return ReloadState(report.results, ok=not report.problems)


def shadow_state(core: Core) -> ShadowState | None:
    """What has come of the shadow configuration, None while there is none."""
    return None if core.shadow is None else ShadowState(core.shadow.hash, core.shadow_tally)
