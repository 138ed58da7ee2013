"""Envoy's configuration for these tests: one listener, the picker's filter, one cluster of model servers."""

from dataclasses import dataclass, field
from typing import Any

DESTINATION = "x-gateway-destination-endpoint"
_TYPES = "type.googleapis.com/envoy.extensions"


@dataclass(frozen=True)
class Setup:
    """What differs between gateways.

    `routing` is `header` or `metadata` (ORIGINAL_DST) or `override` (override_host over `endpoints`).
    """

    picker_port: int
    endpoints: tuple[str, ...] = ()
    request_body: str = "FULL_DUPLEX_STREAMED"
    response_headers: str = "SEND"
    response_body: str = "NONE"
    routing: str = "header"
    fail_open: bool = False
    tls: bool = False
    num_retries: int = 0
    subset: tuple[str, ...] | None = None
    message_timeout: str = "5s"
    buffer_bytes: int = 16 << 20
    health_check: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


def bootstrap(setup: Setup) -> dict[str, Any]:
    """The whole of it."""
    return {
        "admin": {"address": _socket("127.0.0.1", 0)},
        "static_resources": {
            "listeners": [_listener(setup)],
            "clusters": [_picker(setup), _servers(setup)],
        },
    }


def _socket(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


def _typed(kind: str, **fields: Any) -> dict[str, Any]:
    return {"@type": f"{_TYPES}.{kind}", **fields}


def _listener(setup: Setup) -> dict[str, Any]:
    manager = _typed(
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="ingress",
        stream_idle_timeout="0s",
        use_remote_address=True,
        preserve_external_request_id=True,
        http_filters=[*_subset(setup), _ext_proc(setup), _router()],
        route_config={"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [_route(setup)]}]},
    )
    chain = {"filters": [{"name": "hcm", "typed_config": manager}]}
    return {
        "name": "ingress",
        "address": _socket("127.0.0.1", 0),
        "per_connection_buffer_limit_bytes": setup.buffer_bytes,
        "filter_chains": [chain],
    }


def _router() -> dict[str, Any]:
    return {"name": "router", "typed_config": _typed("filters.http.router.v3.Router")}


def _route(setup: Setup) -> dict[str, Any]:
    action: dict[str, Any] = {"cluster": "servers", "timeout": "0s", "idle_timeout": "0s"}
    if setup.num_retries:
        action["retry_policy"] = {
            "retry_on": "connect-failure,reset,refused-stream",
            "num_retries": setup.num_retries,
        }
    return {"match": {"prefix": "/"}, "route": action}


def _subset(setup: Setup) -> list[dict[str, Any]]:
    """A filter that sets the subset hint, as a gateway would."""
    if setup.subset is None:
        return []
    value = {DESTINATION + "-subset": list(setup.subset)}
    entry = {"metadata_namespace": "envoy.lb.subset_hint", "value": value}
    return [
        {
            "name": "subset",
            "typed_config": _typed("filters.http.set_metadata.v3.Config", metadata=[entry]),
        }
    ]


def _ext_proc(setup: Setup) -> dict[str, Any]:
    duplex = setup.request_body == "FULL_DUPLEX_STREAMED"
    mode = {
        "request_header_mode": "SEND",
        "request_body_mode": setup.request_body,
        "request_trailer_mode": "SEND" if duplex else "SKIP",
        "response_header_mode": setup.response_headers,
        "response_body_mode": setup.response_body,
        "response_trailer_mode": "SEND" if setup.response_body == "FULL_DUPLEX_STREAMED" else "SKIP",
    }
    config = _typed(
        "filters.http.ext_proc.v3.ExternalProcessor",
        grpc_service={"envoy_grpc": {"cluster_name": "picker"}},
        processing_mode=mode,
        message_timeout=setup.message_timeout,
        failure_mode_allow=setup.fail_open,
        metadata_options={
            "forwarding_namespaces": {"untyped": ["envoy.lb", "envoy.lb.subset_hint"]},
            "receiving_namespaces": {"untyped": ["envoy.lb"]},
        },
    )
    return {"name": "picker", "typed_config": config}


def _picker(setup: Setup) -> dict[str, Any]:
    many = 100_000
    cluster: dict[str, Any] = {
        "name": "picker",
        "type": "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        },
        "circuit_breakers": {
            "thresholds": [{"max_requests": many, "max_connections": many, "max_pending_requests": many}]
        },
        "load_assignment": _assignment("picker", [f"127.0.0.1:{setup.picker_port}"]),
    }
    if setup.tls:
        cluster["transport_socket"] = {
            "name": "tls",
            "typed_config": _typed(
                "transport_sockets.tls.v3.UpstreamTlsContext", common_tls_context={"alpn_protocols": ["h2"]}
            ),
        }
    if setup.health_check:
        cluster["health_checks"] = [
            {
                "timeout": "1s",
                "interval": "0.05s",
                "no_traffic_interval": "0.05s",
                "unhealthy_threshold": 1,
                "healthy_threshold": 1,
                "grpc_health_check": {"service_name": "envoy.service.ext_proc.v3.ExternalProcessor"},
            }
        ]
        cluster["common_lb_config"] = {"healthy_panic_threshold": {"value": 0}}
    return cluster


def _assignment(name: str, addresses: list[str]) -> dict[str, Any]:
    endpoints = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        endpoints.append({"endpoint": {"address": _socket(host.strip("[]"), int(port))}})
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}


def _servers(setup: Setup) -> dict[str, Any]:
    many = 100_000
    cluster: dict[str, Any] = {
        "name": "servers",
        "connect_timeout": "1s",
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_requests": many,
                    "max_connections": many,
                    "max_pending_requests": many,
                    "max_retries": many,
                }
            ]
        },
    }
    if setup.routing == "override":
        return cluster | {
            "type": "STATIC",
            "load_assignment": _assignment("servers", list(setup.endpoints)),
            "load_balancing_policy": {"policies": [{"typed_extension_config": _override_host()}]},
        }
    original: dict[str, Any] = {"use_http_header": True, "http_header_name": DESTINATION}
    if setup.routing == "metadata":
        original = {"metadata_key": {"key": "envoy.lb", "path": [{"key": DESTINATION}]}}
    return cluster | {
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "original_dst_lb_config": original,
    }


def _override_host() -> dict[str, Any]:
    fallback = {
        "name": "envoy.load_balancing_policies.round_robin",
        "typed_config": _typed("load_balancing_policies.round_robin.v3.RoundRobin"),
    }
    return {
        "name": "envoy.load_balancing_policies.override_host",
        "typed_config": _typed(
            "load_balancing_policies.override_host.v3.OverrideHost",
            override_host_sources=[
                {"metadata": {"key": "envoy.lb", "path": [{"key": DESTINATION}]}},
                {"header": DESTINATION},
            ],
            selected_host_key={"key": "envoy.lb", "path": [{"key": DESTINATION + "-served"}]},
            fallback_policy={"policies": [{"typed_extension_config": fallback}]},
        ),
    }
