"""One router: every adapter around one core, started and stopped together."""

import asyncio
import logging
import ssl
from collections.abc import Coroutine, Generator
from dataclasses import replace
from typing import Any

from epp import __version__
from epp.api.app import create_control_app
from epp.api.ports import Ports, Readiness
from epp.app.changes import reload_state, shadow_state, source_states
from epp.app.cluster import election_of, metrics_access_of
from epp.app.files import Configurations
from epp.app.front_door import FrontDoor, admin_door
from epp.app.guards import ENDPOINT_KEY, ENDPOINT_TLS, bearer, build_guards
from epp.app.observers import Observers
from epp.app.open_files import open_files_limit
from epp.app.options import (
    core_options,
    log_dropped_headers,
    log_shadow_failures,
    proxy_settings,
    upstream_settings,
)
from epp.app.readiness import readiness
from epp.app.recording import Recording, recorded_options
from epp.app.reload import ConfigReload
from epp.app.routes import relayed_routes
from epp.app.sources import PoolSources
from epp.app.warm_start import WarmStart
from epp.app.watched import WatchedFiles
from epp.clock import Clock, SystemClock
from epp.compose import Core, compose, recompose
from epp.config import EffectiveConfig, Settings
from epp.config.report import config_as_dict
from epp.director import Exchange
from epp.director.administration import EngineChange
from epp.director.receipts import receipt_line
from epp.discovery.alarm import Alarm
from epp.errors import ConfigError
from epp.http import UpstreamPool
from epp.observability.change_metrics import Changes
from epp.proxy import EngineAdmin, Relay

__all__ = ["Runtime"]

logger = logging.getLogger("epp")

_TICK_S = 0.05
_SWEEP_PAUSE_S = 0.001
_HAND_OVER_S = 1.0


class Runtime:
    """Made on a running event loop; nothing in it is shared with another one.

    Attributes:
        app: the ASGI application of the main listener.
        admin_app: that of the admin listener.
        relay: what serves relayed paths.
        engine_admin: what serves the engines' administration.
        control: the control surface.
    """

    def __init__(
        self,
        settings: Settings,
        config: EffectiveConfig,
        clock: Clock | None = None,
        *,
        shadow: EffectiveConfig | None = None,
        rewrites_models: bool = True,
    ) -> None:
        """`rewrites_models`: every front door can change a body."""
        self.settings = settings
        self.clock = clock or SystemClock()
        self.proxy_settings = proxy_settings(settings)
        told = (log_shadow_failures(self.clock), log_dropped_headers(self.clock))
        options = recorded_options(settings, core_options(settings, *told))
        configurations = Configurations(config, shadow)
        self.recording = Recording(settings, configurations, options, self.clock.wall())
        self.core = compose(config, options, shadow=shadow, tape=self.recording.tape)
        self.files = WatchedFiles()
        self.guards = build_guards(settings, self.files)
        upstream = upstream_settings(settings, self.guards.endpoint_tls)
        self.pool = UpstreamPool(upstream)
        self.files.on_change(ENDPOINT_TLS, self._use_endpoint_tls)
        self.files.on_change(ENDPOINT_KEY, self._use_endpoint_key)
        self.relay = self._build_relay()
        self._alarm = Alarm()
        self.reload = ConfigReload(settings, configurations, self._apply, self._alarm.new_pause())
        self.observers = self._build_observers()
        # A pool of its own: a limit on connections for requests must not blind the scorers.
        self.probe_pool = UpstreamPool(replace(upstream, max_connections_per_origin=0))
        self.sources = self._build_sources(rewrites_models=rewrites_models)
        self.election = election_of(settings, self.clock)
        self.warm_start = self._build_warm_start()
        self.metrics_access = metrics_access_of(settings, self.clock)
        self.draining = False
        self._handing_over: asyncio.Task[None] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, str] = {}
        self.control = create_control_app(self._ports(), relayed_routes(settings.path_rules))
        self.admin_app = admin_door(self.control)
        self.engine_admin = EngineAdmin(
            replace(self.relay.around, pool=self.probe_pool), self._engine_changed
        )
        self.app = FrontDoor(
            control_here=not settings.admin_port,
            allow_engine_admin=settings.allow_engine_admin,
            path_rules=settings.path_rules,
            allowed_origins=settings.cors.allowed_origins,
        )
        self.attach_to(self.app)

    def _build_relay(self) -> Relay:
        return Relay(
            self.core.director,
            self.pool,
            self.proxy_settings,
            clock=self.clock,
            explain=self._explain,
            gate=self.guards.gate,
            proxies=self.guards.proxies,
            credentials=self.guards.credentials,
        )

    def _build_sources(self, *, rewrites_models: bool) -> PoolSources:
        return PoolSources(
            self.settings,
            self.core,
            self.probe_pool,
            self.clock,
            self.observers.scrape_failed,
            self._alarm,
            key=self.guards.endpoint_key,
            rewrites_models=rewrites_models,
        )

    def _build_warm_start(self) -> WarmStart | None:
        if self.settings.state.dir is None:
            return None
        return WarmStart(
            self.settings.state,
            lambda: self.core,
            self.clock,
            leads=lambda: self.election is None or self.election.leading,
            takes_over=self.recording.tape is None,  # what a recording does not hold cannot be replayed
        )

    def _build_observers(self) -> Observers:
        return Observers(
            self.settings,
            self.core,
            self.relay,
            self.clock,
            changes=self._changes(),
            files=self.files,
            gate=self.guards.gate,
        )

    def attach_to(self, door: FrontDoor) -> None:
        """Serve what comes through `door`."""
        door.attach(
            self.relay,
            self.control,
            self.engine_admin,
            gate=self.guards.gate,
            keyed_paths=self.guards.keyed_paths,
        )

    async def start(self) -> None:
        """Begin to log, to scrape and to clean up."""
        self.observers.start()
        self._log_warnings()
        for warning in self.guards.warnings:
            logger.warning("security: %s", warning)
        await self.sources.start()
        self._spawn("upkeep", self._upkeep())
        if self.warm_start is not None:
            await self.warm_start.start()
            self._spawn("warm start", self.warm_start.run())
        if self.reload.follows:
            self._spawn("reload", self.reload.run())
        if self.files.states:
            self._spawn("watched files", self.files.run())
        if self.election is not None:
            self._spawn("leader election", self.election.run())
        config = self.core.config
        logger.info(
            "epp started",
            extra={
                "version": __version__,
                "config": config.source,
                "config_hash": config.hash,
                "open_files_limit": open_files_limit(),
            },
        )

    def _log_warnings(self) -> None:
        for warning in (*self.core.config.warnings, *self.core.warnings):
            logger.warning("configuration: %s", warning)

    def begin_drain(self) -> None:
        """Fail readiness; the server lets what is in flight end."""
        if not self.draining:
            self.draining = True
            self._handing_over = asyncio.create_task(self._hand_over())
            logger.info("draining", extra={"in_flight": self.relay.in_flight})

    async def _hand_over(self) -> None:
        """Save what was learned, so that whoever leads next finds it; then let another one lead."""
        if self.warm_start is not None:
            # Not cancelled when time is up: the last save waits for it.
            await asyncio.wait({asyncio.create_task(self.warm_start.save())}, timeout=_HAND_OVER_S)
        if self.election is not None:
            self.election.give_back()

    async def stop(self) -> None:
        """End everything that `start` began."""
        if self._handing_over is not None:
            await self._handing_over
            if self.election is not None:
                await self.election.given_back()
            elif self.warm_start is not None:
                await self.warm_start.save()  # with what came while draining
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.sources.stop()
        if self.metrics_access is not None:
            await self.metrics_access.close()
        await self.probe_pool.close()
        await self.pool.close()
        self.recording.stop()
        logger.info("epp stopped")
        self.observers.stop()

    def reopen_logs(self) -> None:
        """Open log files anew, for log rotation."""
        self.observers.reopen()

    def on_hangup(self) -> None:
        """Open log files and read certificates and keys anew; look at configuration and endpoints at once."""
        self.reopen_logs()
        self.files.read_now()
        self._alarm.ring()

    async def _use_endpoint_tls(self, context: ssl.SSLContext) -> None:
        self.pool.use_tls(context)
        self.probe_pool.use_tls(context)

    async def _use_endpoint_key(self, key: str) -> None:
        if self.guards.credentials is not None:
            self.guards.credentials.authorization = bearer(key)
        self.sources.use_key(key)

    def _engine_changed(self, address: str, change: EngineChange) -> None:
        """An endpoint was administered through us: forget what no longer holds."""
        if change is EngineChange.MODELS:
            self.sources.refresh_models(address)
        else:
            self.core.upkeep.on_cache_lost(address, gpu_only=change is EngineChange.GPU_TIER)
            if self.warm_start is not None:
                self.warm_start.save_soon()
        logger.info("engine administered", extra={"endpoint": address, "change": change.name.lower()})

    async def _apply(self, wanted: Configurations) -> None:
        """Put configurations in effect between two requests.

        Raises:
            ConfigError, SourceError: they cannot be; nothing has changed then.
        """
        await self.sources.use(wanted.live)
        try:
            self.core = await _in_steps(recompose(self.core, wanted.live, wanted.shadow))
        except ConfigError:
            await self.sources.use(self.core.config)
            raise
        self.recording.configured(wanted)
        self.observers.reconfigure(self.core)
        self._log_warnings()

    def _changes(self) -> Changes:
        return Changes(
            config_hash=lambda: self.core.config.hash,
            sources=lambda: source_states(self.sources.reports()),
            reload=lambda: reload_state(self.reload.report()),
            shadow=lambda: shadow_state(self.core),
            state=lambda: self.warm_start.report() if self.warm_start is not None else None,
        )

    def _readiness(self) -> Readiness:
        return readiness(
            self.core,
            self.clock.monotonic(),
            draining=self.draining,
            failed=self._failed,
            sources=self.sources.reports(),
            reload=self.reload.report(),
            files=self.files.states,
            standby=self._standby(),
        )

    def _standby(self) -> str:
        election = self.election
        if election is None or election.leading:
            return ""
        held = f"the lease is held by {election.holder or 'nobody'}"
        return f"standby: {election.problem or held}"

    def is_ready(self) -> bool:
        """Whether requests should be sent here."""
        return self._readiness().ready

    def _configuration(self) -> dict[str, Any]:
        shadow = self.core.shadow
        return {
            **config_as_dict(self.core.config),
            "shadow": None if shadow is None else config_as_dict(shadow),
        }

    def _explain(self, exchange: Exchange, scope: Any) -> str | None:
        return receipt_line(exchange) if self.guards.access.allows(scope) else None

    def _ports(self) -> Ports:
        return Ports(
            director=self.core.director,
            clock=self.clock,
            access=self.guards.access,
            readiness=self._readiness,
            metrics=self.observers.render_metrics,
            metrics_content_type=self.observers.metrics_content_type,
            decisions=self.observers,
            configuration=self._configuration,
            max_request_bytes=self.settings.max_request_bytes,
            version=__version__,
            private=self.guards.gate is not None,
            admit_metrics=self.metrics_access.admit if self.metrics_access is not None else None,
        )

    async def _upkeep(self) -> None:
        while True:
            clean = self.core.upkeep.tick(self.clock.monotonic())
            self.sources.follow_pool()
            await asyncio.sleep(_TICK_S if clean else _SWEEP_PAUSE_S)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run background work; if it dies, readiness fails and names it."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_task_end)
        self._tasks[name] = task

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        self._failed[task.get_name()] = type(error).__name__ if error else "ended"
        logger.error("background task %s ended", task.get_name(), exc_info=error)


async def _in_steps(steps: Generator[None, None, Core]) -> Core:
    """Let requests be served between the steps."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            core: Core = done.value
            return core
        await asyncio.sleep(0)
