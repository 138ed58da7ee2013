"""`epp.Picker`: the decisions of the router for Python programs, without a server."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from epp.compose import CoreOptions, compose
from epp.config import load_config
from epp.config.builtin import builtin_config
from epp.director.pick import Pick, pick_now
from epp.director.types import RequestHead
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import EndpointMetrics, ModelInfo

__all__ = ["Pick", "Picker"]


class Picker:
    """Picks endpoints as the proxy does, from the same configuration.

    The caller says what the endpoints report (`update_metrics`, `set_models`); nothing is scraped. One thread
    at a time may use a picker.
    """

    def __init__(
        self,
        endpoints: Iterable[str],
        *,
        config: str | Path | None = None,
        seed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`config` is a file; None takes the built-in default.

        Raises:
            ConfigError: the configuration or an endpoint cannot be used.
        """
        text, source = _config_text(config)
        self._clock = clock
        self._core = compose(
            load_config(text, source), CoreOptions(seed=seed, staleness_s=lambda: float("inf"))
        )
        self._core.upkeep.sync_endpoints([parse_endpoint(url) for url in endpoints], clock())

    def pick(
        self, request: Mapping[str, Any] | bytes, *, path: str = "/v1/chat/completions", commit: bool = True
    ) -> Pick:
        """Where to send `request` (a dict or the body's bytes); with `commit` the index notes it."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        head = RequestHead("", "POST", path)
        return pick_now(self._core.director, head, body, self._clock(), commit=commit)

    def update_metrics(self, address: str, **values: Any) -> None:
        """What an endpoint reports, by the names of `EndpointMetrics` (waiting, kv_usage, …)."""
        endpoint = self._core.table.pool.by_address[address]
        self._core.upkeep.on_metrics(address, endpoint.incarnation, EndpointMetrics(**values), self._clock())

    def set_models(self, address: str, *models: str) -> None:
        """The base models that an endpoint serves."""
        endpoint = self._core.table.pool.by_address[address]
        infos = tuple(ModelInfo(id=model) for model in models)
        self._core.upkeep.on_models(address, endpoint.incarnation, infos, self._clock())


def _config_text(config: str | Path | None) -> tuple[str, str]:
    if config is None:
        return builtin_config(), "built-in default.yaml"
    return Path(config).read_text(), str(config)
