"""From an effective configuration to a working core: index, scheduling, director. Pure, no adapters."""

import random
import time
from collections import ChainMap
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from epp.config.catalog import default_registry
from epp.config.effective import EffectiveConfig, PluginInstance, Profile
from epp.director.candidates import Candidates
from epp.director.claims import Claims
from epp.director.director import Director, Limits
from epp.director.record import RequestRecord
from epp.director.retry import RetryPolicy
from epp.director.rewriting import Rewriter
from epp.director.shadow import Shadow, ShadowTally
from epp.director.state import State
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
from epp.recording.recorded import RecordedDirector, RecordedUpkeep
from epp.recording.tape import Tape
from epp.request import ModelRewrites
from epp.scheduling.contracts import BuildContext, Filter
from epp.scheduling.profile import SchedulingProfile
from epp.scheduling.registry import PluginKind, Registry
from epp.scheduling.scheduler import Scheduler

__all__ = ["Core", "CoreOptions", "compose", "recompose"]

_BUILT = frozenset(
    {PluginKind.FILTER, PluginKind.SCORER, PluginKind.PICKER, PluginKind.HANDLER, PluginKind.DETECTOR}
)


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """What the core takes from its surroundings.

    `staleness_s` is asked at each tick; `scrape_interval_s` is the longest time between two scrapes of an
    endpoint; `found_priorities` are those of objectives that are found while running, below `objectives`;
    whoever finds them changes it in place, and so it is with `rewrites`. `shadow_failed` is told when the
    shadow configuration raised, `header_dropped` the name of a header that a plugin should not have added to
    an answer.
    """

    seed: int | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    limits: Limits = field(default_factory=Limits)
    health: HealthPolicy = field(default_factory=HealthPolicy)
    slow_start_s: float = 30.0
    staleness_s: Callable[[], float] = lambda: 2.0
    scrape_interval_s: float = 0.5
    objectives: tuple[Objective, ...] = ()
    found_priorities: dict[str, int] = field(default_factory=dict)
    rewrites: ModelRewrites = field(default_factory=ModelRewrites)
    timer: Callable[[], float] = time.perf_counter
    shadow_failed: Callable[[Exception], None] = lambda _: None
    header_dropped: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Core:
    """The decision core of one pool, with the configurations that are in effect.

    `shadow` decides beside `config` and is never obeyed; `shadow_tally` is what came of it.
    """

    config: EffectiveConfig
    table: EndpointTable
    director: Director
    upkeep: Upkeep
    options: CoreOptions
    warnings: tuple[str, ...] = ()
    shadow: EffectiveConfig | None = None
    shadow_tally: ShadowTally = field(default_factory=ShadowTally)

    @property
    def state(self) -> State:
        """What the director decides from."""
        return self.director.state


def compose(
    config: EffectiveConfig,
    options: CoreOptions | None = None,
    *,
    shadow: EffectiveConfig | None = None,
    observers: Sequence[Callable[[RequestRecord], None]] = (),
    registry: Registry | None = None,
    tape: Tape | None = None,
) -> Core:
    """Build a core; nothing is shared between two of them. What happens to it is put on `tape`."""
    options = options or CoreOptions()
    index, ledger, tally = PrefixIndex(), Ledger(), ShadowTally()
    table = EndpointTable(ledger, on_incarnation_end=index.drop, can_reuse=lambda slot: not index.busy(slot))
    build = _Build(registry or default_registry(), options, table)
    views, shadow_views = _views(index, config, ()), _views(index, shadow, ())
    health, slow_start = PassiveHealth(options.health), SlowStart(options.slow_start_s)
    scheduler, admission = build.deciders(config)
    state = State(
        table=table,
        catalog=ModelCatalog(),
        health=health,
        slow_start=slow_start,
        ledger=ledger,
        index=index,
        ratios=TokenRatios(),
        views=views,
        scheduler=scheduler,
        admission=admission,
        candidates=_candidates(health, admission, slow_start, ledger, options),
        shadow=_shadow(build.beside(shadow), shadow_views, tally, options),
        claims=Claims(index, (*views, *shadow_views), ledger),
    )
    director, upkeep = _directors(state, options, observers, tape)
    return Core(config, table, director, upkeep, options, tuple(build.warnings), shadow, tally)


def _directors(
    state: State,
    options: CoreOptions,
    observers: Sequence[Callable[[RequestRecord], None]],
    tape: Tape | None,
) -> tuple[Director, Upkeep]:
    arguments: dict[str, Any] = {
        "timer": options.timer,
        "retry": options.retry,
        "limits": options.limits,
        "observers": observers,
        "rewriter": Rewriter(
            options.rewrites, random.Random(options.seed).random, options.limits.inflated_bytes
        ),
    }
    if tape is None:
        director = Director(state, **arguments)
        return director, Upkeep(director, options.staleness_s)
    director = RecordedDirector(tape, state, **arguments)
    return director, RecordedUpkeep(tape, director, options.staleness_s)


def recompose(
    core: Core,
    config: EffectiveConfig,
    shadow: EffectiveConfig | None = None,
    *,
    registry: Registry | None = None,
) -> Generator[None, None, Core]:
    """Put other configurations in effect; to be driven to its end, yields between steps below a millisecond.

    The last step swaps, between two requests. Views keep what they hold where name, tier and block size stay;
    others start empty. Plugins of a configuration that decides as before stay too, with what they remember.
    Table, ledger, health and learned ratios go on. Of `core` all but its configurations may be used on.

    Raises:
        ConfigError: a plugin cannot be built; nothing has changed then.
    """
    old, index = core.state, core.state.index
    build = _Build(registry or default_registry(), core.options, core.table)
    scheduler, admission, candidates = old.scheduler, old.admission, old.candidates
    if config.hash != core.config.hash:
        scheduler, admission = build.deciders(config)
        candidates = _candidates(old.health, admission, old.slow_start, old.ledger, core.options)
    beside = build.beside(shadow, core.shadow, old.shadow)
    yield from index.make_room(_count_new(config, old.views) + _count_new(shadow, old.shadow_views))
    views, shadow_views = _views(index, config, old.views), _views(index, shadow, old.shadow_views)
    state = replace(
        old,
        views=views,
        scheduler=scheduler,
        admission=admission,
        candidates=candidates,
        shadow=_shadow(beside, shadow_views, core.shadow_tally, core.options),
        claims=Claims(index, (*views, *shadow_views), old.ledger),
    )
    core.director.adopt(state)
    core.upkeep.adopt_views()
    _remove_views(index, (*old.views, *old.shadow_views), (*views, *shadow_views))
    return replace(core, config=config, shadow=shadow, warnings=tuple(build.warnings))


def _views(
    index: PrefixIndex, config: EffectiveConfig | None, known: tuple[TierView, ...]
) -> tuple[TierView, ...]:
    """The views that `config` asks for, those of `known` again that hold the same."""
    by_identity = {_identity(view): view.index_view for view in known}
    views = []
    for wanted in config.views if config is not None else ():
        view = TierView(
            name=wanted.producer,
            index_view=-1,
            tier=Tier(wanted.tier),
            block_bytes=wanted.block_bytes,
            max_blocks=wanted.max_blocks,
            auto_tune=wanted.auto_tune,
            capacity_blocks=wanted.capacity_blocks,
        )
        number = by_identity.get(_identity(view))
        views.append(replace(view, index_view=index.add_view() if number is None else number))
    return tuple(views)


def _identity(view: TierView) -> tuple[str, Tier, int]:
    """What a view holds depends on this; its cap and its capacity may change."""
    return view.name, view.tier, view.block_bytes


def _count_new(config: EffectiveConfig | None, known: tuple[TierView, ...]) -> int:
    same = {_identity(view) for view in known}
    wanted = config.views if config is not None else ()
    return sum((view.producer, view.tier, view.block_bytes) not in same for view in wanted)


def _remove_views(index: PrefixIndex, old: Iterable[TierView], new: Iterable[TierView]) -> None:
    for number in {view.index_view for view in old} - {view.index_view for view in new}:
        index.remove_view(number)


def _shadow(
    scheduler: Scheduler | None, views: tuple[TierView, ...], tally: ShadowTally, options: CoreOptions
) -> Shadow | None:
    if scheduler is None:
        return None
    return Shadow(views, scheduler, tally, timer=options.timer, failed=options.shadow_failed)


def _candidates(
    health: PassiveHealth, admission: Admission, slow_start: SlowStart, ledger: Ledger, options: CoreOptions
) -> Candidates:
    return Candidates(health, admission, slow_start, ledger, options.limits.inflight_per_endpoint)


class _Build:
    """Makes what decides, and collects what plugins warn of."""

    def __init__(self, registry: Registry, options: CoreOptions, table: EndpointTable) -> None:
        self.warnings: list[str] = []
        self._registry = registry
        self._options = options
        self._table = table

    def deciders(self, config: EffectiveConfig) -> tuple[Scheduler, Admission]:
        """Scheduler and admission over the plugins of `config`."""
        options = self._options
        context = BuildContext(
            random=random.Random(options.seed),
            producers=frozenset(view.producer for view in config.views),
            warn=self.warnings.append,
            scraped_at=partial(_scraped_at, self._table),
            scrape_interval_s=options.scrape_interval_s,
            cpu_producers=frozenset(view.producer for view in config.views if view.tier == "cpu"),
        )
        plugins = {p.name: self._plugin(p, context) for p in config.plugins if p.kind in _BUILT}
        profiles = [_profile(p, plugins) for p in config.profiles]
        scheduler = Scheduler(profiles, plugins[config.handler], options.header_dropped)
        given = {o.name: o.priority for o in options.objectives}
        priorities = ChainMap(given, options.found_priorities)
        return scheduler, Admission(plugins[config.detector], priorities)

    def beside(
        self,
        config: EffectiveConfig | None,
        known: EffectiveConfig | None = None,
        shadow: Shadow | None = None,
    ) -> Scheduler | None:
        """The scheduler of a shadow configuration: that of `shadow` where `known`, its own, is equal."""
        if config is None:
            return None
        if shadow is not None and known is not None and known.hash == config.hash:
            return shadow.scheduler
        return self.deciders(config)[0]

    def _plugin(self, plugin: PluginInstance, context: BuildContext) -> Any:
        plugin_type = self._registry.get(plugin.type)
        if plugin_type is None:
            raise AssertionError("the configuration was checked against another registry")
        return plugin_type.build(plugin.name, plugin.parameters, context)


def _scraped_at(table: EndpointTable, address: str) -> float | None:
    reports = table.reports(address)
    return reports.scraped_at if reports is not None else None


def _profile(profile: Profile, plugins: dict[str, Any]) -> SchedulingProfile:
    scorers = [(plugins[s.name], s.weight) for s in profile.scorers]
    # A scorer may be a filter as well, if its parameters say so.
    filters = [plugins[name] for name in profile.filters] + [s for s, _ in scorers if isinstance(s, Filter)]
    return SchedulingProfile(profile.name, filters, scorers, plugins[profile.picker])
