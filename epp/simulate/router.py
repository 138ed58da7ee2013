"""The shipped core behind its four seams: time as an argument, metrics by hand, a seed, hashed requests."""

import time
from collections.abc import Callable, Sequence

from epp.compose import CoreOptions, compose
from epp.config.effective import EffectiveConfig
from epp.director.chains import PromptChains
from epp.director.exchange import Exchange
from epp.director.hashed import prepare_hashed
from epp.director.record import RequestRecord
from epp.director.types import EndReason, Failure, FailureKind, RequestHead, Target
from epp.endpoints.types import EndpointMetrics, EndpointSpec, ModelInfo
from epp.request.types import Api, InferenceRequest
from epp.response.types import Usage
from epp.simulate.prompts import KeyMaker
from epp.simulate.workload import SimRequest

__all__ = ["SimRouter"]

_BYTES_PER_TOKEN = 4  # of prompts that are token ids
_LONG_AGO_S = -86_400.0


class SimRouter:
    """One core, driven in virtual time.

    `spent_s` is the time on the wall that its code took, for the speed report alone.
    """

    def __init__(
        self,
        config: EffectiveConfig,
        specs: tuple[EndpointSpec, ...],
        *,
        model: str,
        seed: int,
        scrape_s: float,
        observer: Callable[[RequestRecord], None] | None = None,
    ) -> None:
        options = CoreOptions(
            seed=seed,
            staleness_s=lambda: max(2.0, 3 * scrape_s),
            scrape_interval_s=scrape_s,
            timer=lambda: 0.0,
        )
        self.core = compose(config, options, observers=(observer,) if observer else ())
        self.spent_s = 0.0
        self._director = self.core.director
        self._model = model
        views = (*self.core.state.views, *self.core.state.shadow_views)
        caps: dict[int, int | None] = {}
        for view in views:
            known = caps.get(view.block_bytes, 0)
            caps[view.block_bytes] = (
                None if known is None or view.max_blocks is None else max(known, view.max_blocks)
            )
        self._makers = {
            size: KeyMaker("router", max(1, size // _BYTES_PER_TOKEN), cap) for size, cap in caps.items()
        }
        self._family = views[0].block_bytes if views else None
        self.core.upkeep.sync_endpoints(specs, _LONG_AGO_S)
        for spec in specs:
            self._tell_model(spec.address)

    def _tell_model(self, address: str) -> None:
        incarnation = self.core.table.pool.by_address[address].incarnation
        self.core.upkeep.on_models(address, incarnation, (ModelInfo(self._model),), _LONG_AGO_S)

    def scrape(self, address: str, metrics: EndpointMetrics, now: float) -> None:
        """A scrape succeeded."""
        started = time.perf_counter()
        endpoint = self.core.table.endpoint(address)
        if endpoint is not None:
            self.core.upkeep.on_metrics(address, endpoint.incarnation, metrics, now)
        self.spent_s += time.perf_counter() - started

    def scrape_failed(self, address: str, now: float, *, refused: bool) -> None:
        """No metrics; `refused`: no connection, either."""
        endpoint = self.core.table.endpoint(address)
        if endpoint is not None:
            self.core.upkeep.on_scrape_failure(address, endpoint.incarnation, refused=refused, now=now)

    def tick(self, now: float) -> None:
        """Periodic work."""
        started = time.perf_counter()
        self.core.upkeep.tick(now)
        self.spent_s += time.perf_counter() - started

    def pick(self, request: SimRequest, now: float) -> tuple[Exchange, Target]:
        """Decide.

        Raises:
            SaturatedError, NoEndpointsError.
        """
        chains = self._chains(request)
        started = time.perf_counter()
        exchange = self._director.open(RequestHead(str(request.number), "POST", "/v1/completions"), now)
        parsed = InferenceRequest(
            api=Api.COMPLETIONS,
            model=self._model,
            salt="",
            prompts=(),
            stream=True,
            body_bytes=request.prompt_tokens * _BYTES_PER_TOKEN,
            max_output_tokens=request.max_tokens,
        )
        prepare_hashed(self._director.state, exchange, parsed, chains, request.prompt_tokens)
        try:
            target = self._director.pick(exchange, now)
        finally:
            self.spent_s += time.perf_counter() - started
        return exchange, target

    def _chains(self, request: SimRequest) -> PromptChains:
        chains: dict[int, tuple[Sequence[int], ...]] = {
            size: (maker.keys(request.segments),) for size, maker in self._makers.items()
        }
        first = chains[self._family][0] if self._family is not None else ()
        return PromptChains(
            chains,
            token_ids=True,
            family=first[0] if first else None,
            data_bytes=request.prompt_tokens * _BYTES_PER_TOKEN,
        )

    def retry(self, exchange: Exchange, now: float) -> Target | None:
        """The endpoint refused the connection."""
        return self._director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), now)

    def on_first_token(self, exchange: Exchange, now: float) -> None:
        """Head and first token came."""
        started = time.perf_counter()
        self._director.on_response_head(exchange, 200, now)
        self._director.on_first_byte(exchange, now)
        self.spent_s += time.perf_counter() - started

    def on_complete(self, exchange: Exchange, output_tokens: int, now: float) -> None:
        """The answer ended."""
        started = time.perf_counter()
        usage = Usage(prompt_tokens=exchange.prompt_tokens, completion_tokens=output_tokens)
        self._director.on_end(exchange, EndReason.COMPLETE, now, usage=usage)
        self.spent_s += time.perf_counter() - started

    def on_error(self, exchange: Exchange, now: float) -> None:
        """The endpoint broke off."""
        self._director.on_end(exchange, EndReason.UPSTREAM_ABORTED, now)
