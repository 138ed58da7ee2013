"""From an effective configuration to a working core: index, scheduling, director. Pure, no adapters."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from epp.config.catalog import default_registry
from epp.config.effective import EffectiveConfig, PluginInstance, Profile
from epp.director.director import Director, Limits, State
from epp.director.record import RequestRecord
from epp.director.retry import RetryPolicy
from epp.director.tokens import TokenRatios
from epp.director.upkeep import Upkeep
from epp.director.views import Tier, TierView
from epp.endpoints.health import HealthPolicy, PassiveHealth
from epp.endpoints.ledger import Ledger
from epp.endpoints.models import ModelCatalog
from epp.endpoints.slow_start import SlowStart
from epp.endpoints.table import EndpointTable
from epp.flow.admission import Admission, Objective
from epp.prefix import PrefixIndex
from epp.scheduling.contracts import BuildContext, Filter
from epp.scheduling.profile import SchedulingProfile
from epp.scheduling.registry import PluginKind, Registry
from epp.scheduling.scheduler import Scheduler

__all__ = ["Core", "CoreOptions", "compose"]

_BUILT = frozenset(
    {PluginKind.FILTER, PluginKind.SCORER, PluginKind.PICKER, PluginKind.HANDLER, PluginKind.DETECTOR}
)


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """What the core takes from server settings. `staleness_s` is asked at each tick.

    `scrape_interval_s` is the longest time between two scrapes of an endpoint.
    """

    seed: int | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    limits: Limits = field(default_factory=Limits)
    health: HealthPolicy = field(default_factory=HealthPolicy)
    slow_start_s: float = 30.0
    staleness_s: Callable[[], float] = lambda: 2.0
    scrape_interval_s: float = 0.5
    objectives: tuple[Objective, ...] = ()
    timer: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, slots=True)
class Core:
    """The decision core of one pool."""

    config: EffectiveConfig
    table: EndpointTable
    director: Director
    upkeep: Upkeep
    warnings: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """What the director decides from."""
        return self.director.state


def compose(
    config: EffectiveConfig,
    options: CoreOptions | None = None,
    *,
    observers: Sequence[Callable[[RequestRecord], None]] = (),
    registry: Registry | None = None,
) -> Core:
    """Build a core; nothing is shared between two of them."""
    options = options or CoreOptions()
    index = PrefixIndex()
    views = tuple(
        TierView(
            name=view.producer,
            index_view=index.add_view(),
            tier=Tier(view.tier),
            block_bytes=view.block_bytes,
            max_blocks=view.max_blocks,
            auto_tune=view.auto_tune,
            capacity_blocks=view.capacity_blocks,
        )
        for view in config.views
    )
    ledger = Ledger()
    table = EndpointTable(ledger, on_incarnation_end=index.drop, can_reuse=lambda slot: not index.busy(slot))
    warnings: list[str] = []
    plugins = _plugins(config, options, registry or default_registry(), table, warnings)
    state = State(
        table=table,
        catalog=ModelCatalog(),
        health=PassiveHealth(options.health),
        slow_start=SlowStart(options.slow_start_s),
        ledger=ledger,
        index=index,
        views=views,
        ratios=TokenRatios(),
        scheduler=Scheduler([_profile(p, plugins) for p in config.profiles], plugins[config.handler]),
        admission=Admission(plugins[config.detector], {o.name: o.priority for o in options.objectives}),
    )
    director = Director(
        state, timer=options.timer, retry=options.retry, limits=options.limits, observers=observers
    )
    upkeep = Upkeep(
        table, state.health, ledger, index, views, state.ratios, director.counter_ratios, options.staleness_s
    )
    return Core(config, table, director, upkeep, tuple(warnings))


def _scraped_at(table: EndpointTable, address: str) -> float | None:
    reports = table.reports(address)
    return reports.scraped_at if reports is not None else None


def _plugins(
    config: EffectiveConfig,
    options: CoreOptions,
    registry: Registry,
    table: EndpointTable,
    warnings: list[str],
) -> dict[str, Any]:
    """Every plugin by name."""
    context = BuildContext(
        random=random.Random(options.seed),
        producers=frozenset(view.producer for view in config.views),
        warn=warnings.append,
        scraped_at=partial(_scraped_at, table),
        scrape_interval_s=options.scrape_interval_s,
    )
    return {p.name: _build(p, registry, context) for p in config.plugins if p.kind in _BUILT}


def _build(plugin: PluginInstance, registry: Registry, context: BuildContext) -> Any:
    plugin_type = registry.get(plugin.type)
    if plugin_type is None:
        raise AssertionError("the configuration was checked against another registry")
    return plugin_type.build(plugin.name, plugin.parameters, context)


def _profile(profile: Profile, plugins: dict[str, Any]) -> SchedulingProfile:
    scorers = [(plugins[s.name], s.weight) for s in profile.scorers]
    # A scorer may be a filter as well, if its parameters say so.
    filters = [plugins[name] for name in profile.filters] + [s for s, _ in scorers if isinstance(s, Filter)]
    return SchedulingProfile(profile.name, filters, scorers, plugins[profile.picker])
