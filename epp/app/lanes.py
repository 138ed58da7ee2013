"""Who serves a path: the pool's own answers, the control surface, engine administration, or an endpoint."""

import enum
from typing import Final

from epp.config.path_rules import canonical_path

__all__ = ["CONTROL_PATHS", "ENGINE_ADMIN_PATHS", "ENGINE_ADMIN_PREFIX", "POOL_PATHS", "Lane", "lane_of"]

# Answered for the pool on every listener: load balancers and clients ask for them where they send requests.
POOL_PATHS: Final = frozenset({"/healthz", "/readyz", "/health", "/ping", "/version", "/load", "/v1/models"})
CONTROL_PATHS: Final = frozenset(
    {"/metrics", "/pick", "/docs", "/docs/oauth2-redirect", "/openapi.json", "/redoc"}
)
_CONTROL_PREFIX: Final = "/debug/"

# They change or stop the engine, or tell its configuration: nobody's clients should reach them by accident.
ENGINE_ADMIN_PATHS: Final = frozenset(
    {
        "/abort_requests",
        "/collective_rpc",
        "/finish_weight_update",
        "/get_world_size",
        "/inference/v1/abort_requests",
        "/init_weight_transfer_engine",
        "/is_paused",
        "/is_scaling_elastic_ep",
        "/is_sleeping",
        "/pause",
        "/release_kv_cache_memory",
        "/reset_encoder_cache",
        "/reset_mm_cache",
        "/reset_prefix_cache",
        "/resume",
        "/scale_elastic_ep",
        "/server_info",
        "/shutdown_weight_transfer_engine",
        "/sleep",
        "/start_draft_weight_update",
        "/start_profile",
        "/start_weight_update",
        "/stop_profile",
        "/update_weight_version",
        "/update_weights",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/wake_up",
        "/weight_checker",
        "/weight_info",
    }
)
ENGINE_ADMIN_PREFIX: Final = "/fault_tolerance/"


class Lane(enum.Enum):
    """Where a request goes."""

    POOL = enum.auto()
    CONTROL = enum.auto()
    ENGINE_ADMIN = enum.auto()
    RELAY = enum.auto()


def lane_of(path: str) -> Lane:
    """The lane of a decoded path without its query.

    Administration is recognised in every spelling that a lenient endpoint could take for it.
    """
    if path in POOL_PATHS:
        return Lane.POOL
    if path in CONTROL_PATHS or path.startswith(_CONTROL_PREFIX):
        return Lane.CONTROL
    plain = canonical_path(path)
    if plain in ENGINE_ADMIN_PATHS or plain.startswith(ENGINE_ADMIN_PREFIX):
        return Lane.ENGINE_ADMIN
    return Lane.RELAY
