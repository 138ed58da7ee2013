"""`epp.Picker`: the decisions of the router for Python programs, without a server."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from epp.compose import CoreOptions, compose
from epp.config import EffectiveConfig, load_any_config
from epp.config.builtin import builtin_config
from epp.director.pick import Pick, pick_now
from epp.director.types import RequestHead
from epp.endpoints.spec import parse_endpoints
from epp.endpoints.types import Endpoint, EndpointMetrics, EndpointSpec, ModelInfo
from epp.errors import ConfigError, ConfigProblem

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
        self._clock = clock
        forever_s = float("inf")
        options = CoreOptions(seed=seed, staleness_s=lambda: forever_s, scrape_interval_s=forever_s)
        self._core = compose(_config(config), options)
        self._core.upkeep.sync_endpoints(_specs(endpoints), clock())

    def pick(
        self, request: Mapping[str, Any] | bytes, *, path: str = "/v1/chat/completions", commit: bool = True
    ) -> Pick:
        """Where to send `request` (a dict or the body's bytes); with `commit` the index notes it.

        Raises:
            EppError: the proxy would refuse the request; `status` says how.
        """
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        head = RequestHead("", "POST", path)
        return pick_now(self._core.director, head, body, self._clock(), commit=commit)

    def update_metrics(self, address: str, **values: Any) -> None:
        """What an endpoint reports, by the names of `EndpointMetrics` (waiting, kv_usage, …); what is not
        given is not known.

        Raises:
            ValueError: there is no endpoint of this address (`host:port`).
        """
        endpoint, now = self._endpoint(address), self._clock()
        self._core.upkeep.on_metrics(address, endpoint.incarnation, EndpointMetrics(**values), now)
        self._core.upkeep.tick(now)

    def set_models(self, address: str, *models: str, adapters: Mapping[str, str] | None = None) -> None:
        """The base models that an endpoint serves, and its adapters (name → base model).

        Raises:
            ValueError: there is no endpoint of this address (`host:port`).
        """
        endpoint = self._endpoint(address)
        infos = [ModelInfo(id=model) for model in models]
        infos += [ModelInfo(id=name, parent=base) for name, base in (adapters or {}).items()]
        self._core.upkeep.on_models(address, endpoint.incarnation, tuple(infos), self._clock())

    def _endpoint(self, address: str) -> Endpoint:
        known = self._core.table.pool.by_address
        if address not in known:
            raise ValueError(f"no endpoint {address!r}; there are {', '.join(known) or 'none'}")
        return known[address]


def _specs(urls: Iterable[str]) -> tuple[EndpointSpec, ...]:
    try:
        return parse_endpoints(urls)
    except ValueError as error:
        raise ConfigError([ConfigProblem("endpoints", str(error))], "epp.Picker") from None


def _config(file: str | Path | None) -> EffectiveConfig:
    if file is None:
        return load_any_config(builtin_config(), "built-in default.yaml")[1]
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            [ConfigProblem("config", f"{file} cannot be read: {error}")], "epp.Picker"
        ) from None
    return load_any_config(text, str(file))[1]
