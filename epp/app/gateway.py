"""The endpoint picker for gateways, put together from the parts of a runtime."""

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from epp.app.lanes import Lane, lane_of
from epp.app.runtime import Runtime
from epp.config import Settings
from epp.config.path_rules import is_open
from epp.director import Exchange
from epp.director.receipts import receipt_line
from epp.errors import ConfigError, ConfigProblem
from epp.http import Headers, new_request_id
from epp.scheduling.inert import SERVED_VERIFIER

if TYPE_CHECKING:
    from epp.gateway.certificates import KeyPair
    from epp.gateway.server import GatewayServer

__all__ = ["build_gateway", "closed_through_gateway", "remembered"]

_FILES: Final = "grpc.certPath"
_KNOWN_PATHS: Final = 512  # that are remembered, if they are not longer than
_PATH_LENGTH: Final = 128
_EXPLAIN: Final = (b"x-epp-explain", b"1")


def build_gateway(runtime: Runtime) -> "GatewayServer | None":
    """The servers that the settings ask for, not started; None when they ask for none.

    Raises:
        ConfigError: a certificate cannot be used, or what gRPC needs is not installed.
    """
    if not runtime.settings.grpc.port:
        return None
    try:
        return _build(runtime)
    except ImportError as error:
        remedy = "install it: pip install 'epp[grpc]'"
        problem = ConfigProblem(
            "grpc.port", f"needs the package {error.name}, which is not installed", remedy
        )
        raise ConfigError([problem], "settings") from None


def _build(runtime: Runtime) -> "GatewayServer":
    from epp.gateway.codec import Codec  # noqa: PLC0415  gRPC is an extra
    from epp.gateway.events import ResponseDepth  # noqa: PLC0415
    from epp.gateway.picked import Limits, Surroundings  # noqa: PLC0415
    from epp.gateway.server import GatewayServer, Listeners  # noqa: PLC0415

    settings, guards = runtime.settings, runtime.guards
    around = Surroundings(
        director=runtime.core.director,
        codec=Codec(),
        limits=Limits(
            max_body_bytes=settings.max_request_bytes,
            body_timeout_s=settings.client.body_timeout_s,
            max_requests=settings.max_requests,
            expose_endpoint=settings.receipts.expose_endpoint,
            subset_hint=settings.grpc.subset_hint,
        ),
        depth=ResponseDepth(settings.grpc.response),
        now=runtime.clock.monotonic,
        new_request_id=new_request_id,
        budget=runtime.relay.around.budget,
        closed=remembered(closed_through_gateway(settings)),
        explain=_explainer(runtime),
        verifies_served=lambda: any(p.type == SERVED_VERIFIER for p in runtime.core.config.plugins),
        gate=guards.gate,
        credentials=guards.credentials,
    )
    pair = _key_pair(runtime) if settings.grpc.secure else None
    health = settings.grpc.health_port
    listeners = Listeners(
        _address(settings.host, settings.grpc.port), _address(settings.host, health) if health else None
    )
    server = GatewayServer(around, listeners, runtime.is_ready, pair)
    runtime.files.on_change(_FILES, server.use_key_pair)
    return server


def closed_through_gateway(settings: Settings) -> Callable[[str], str]:
    """Says why a path is not served through a gateway, "" when it is."""

    def closed(path: str) -> str:
        if lane_of(path) is Lane.ENGINE_ADMIN:
            return "engine administration is not served through a gateway"
        return "" if is_open(settings.path_rules, path) else "this route is closed here"

    return closed


def remembered(closed: Callable[[str], str]) -> Callable[[str], str]:
    """The same, asked once for each of the few paths that most requests have."""
    known = lru_cache(_KNOWN_PATHS)(closed)
    return lambda path: known(path) if len(path) <= _PATH_LENGTH else closed(path)


def _explainer(runtime: Runtime) -> Callable[[Exchange, Headers], str | None]:
    """Receipts for whoever asks for one and shows the admin key: where a caller is, a gateway may not say."""
    access = runtime.guards.access

    def explain(exchange: Exchange, headers: Headers) -> str | None:
        return receipt_line(exchange) if _EXPLAIN in headers and access.has_key(headers) else None

    return explain


def _key_pair(runtime: Runtime) -> "KeyPair":
    from epp.gateway.certificates import CertificateError, read_key_pair, self_signed  # noqa: PLC0415

    directory = runtime.settings.grpc.cert_path
    if directory is None:
        return self_signed(dt.datetime.now(dt.UTC))
    cert, key = (str(Path(directory) / name) for name in ("tls.crt", "tls.key"))
    try:
        return runtime.files.add(_FILES, [cert, key], lambda: read_key_pair(cert, key))
    except CertificateError as error:
        raise ConfigError([ConfigProblem(_FILES, str(error))], "settings") from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
