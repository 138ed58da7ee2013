"""Envoy's configuration, as it is generated: pure functions of what the operator set."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from epp.endpoints.types import Endpoint
from epp.gateway.events import DESTINATION
from epp.gateway.standalone.replies import local_replies

__all__ = [
    "CERTIFICATE_FILE", "ENDPOINTS_FILE", "EXCHANGE", "BootstrapOptions", "assignment", "bootstrap",
    "certificate",
]  # fmt: skip

ENDPOINTS_FILE: Final = "endpoints.json"
CERTIFICATE_FILE: Final = "certificate.json"

EXCHANGE: Final = "x-epp-exchange"  # header and metadata key by which a log line names its check

_TYPES: Final = "type.googleapis.com/envoy"
_CHECK_NAMESPACE: Final = "envoy.filters.http.ext_authz"
_USAGE_NAMESPACE: Final = "epp.usage"
_CLUSTER: Final = "servers"
_CERTIFICATE: Final = "listener"
_MANY: Final = 1_000_000  # Envoy's own limits must not be the first to be reached
_RETRY_ON: Final = "connect-failure,refused-stream,reset-before-request"  # nothing was sent
# What more is repeated is said for each request, in a header that the router takes away: `reset` for a
# connection that broke before an answer, `retriable-status-codes` for 503.
_UNAVAILABLE: Final = 503
_DENIED_HEADERS: Final = (
    "content-type", "retry-after", "www-authenticate", "x-llm-d-request-dropped-reason", "x-request-id",
)  # fmt: skip
_USAGE: Final = {
    "prompt": ("usage", "prompt_tokens"),
    "completion": ("usage", "completion_tokens"),
    "cached": ("usage", "prompt_tokens_details", "cached_tokens"),
}


@dataclass(frozen=True, slots=True)
class BootstrapOptions:
    """What differs between installations.

    Attributes:
        host, port: where clients connect.
        directory: of the sockets `check.sock`, `control.sock` and `admin.sock`, and of the files that Envoy
            watches.
        max_body_bytes: largest request body.
        control_paths: paths that epp itself answers.
        tls: speak TLS towards clients, with the certificate in the file of that name.
        min_tls: "1.2" or "1.3".
        retries: endpoints that are tried after the first.
        expose_endpoint: send `x-epp-endpoint`.
        connect_timeout_s, idle_timeout_s, keep_alive_s: of connections to endpoints.
        total_timeout_s: of a request; 0 is no limit.
        check_timeout_s: how long Envoy waits for a decision before it decides by itself.
    """

    host: str
    port: int
    directory: str
    max_body_bytes: int
    control_paths: Sequence[str]
    tls: bool = False
    min_tls: str = "1.2"
    retries: int = 2
    expose_endpoint: bool = True
    connect_timeout_s: float = 5.0
    idle_timeout_s: float = 600.0
    keep_alive_s: float = 3.0
    total_timeout_s: float = 0.0
    check_timeout_s: float = 5.0


def bootstrap(options: BootstrapOptions) -> dict[str, Any]:
    """The whole configuration."""
    return {
        "node": {"id": "epp", "cluster": "epp"},
        "admin": {"address": _pipe(options, "admin.sock")},
        "static_resources": {
            "listeners": [_listener(options)],
            "clusters": [
                _local("checks", _pipe(options, "check.sock")),
                _local("control", _pipe(options, "control.sock")),
                _servers(options),
            ],
        },
    }


def assignment(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The file of endpoints (a discovery response of EDS); those that drain keep their streams."""
    members = [
        {
            "endpoint": {
                "address": {"socket_address": {"address": e.spec.host, "port_value": e.spec.port}},
            },
            "health_status": "DRAINING" if e.draining else "HEALTHY",
        }
        for e in endpoints
    ]
    resource = {
        "@type": f"{_TYPES}.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": _CLUSTER,
        "endpoints": [{"lb_endpoints": members}],
    }
    return {"resources": [resource]}


def certificate(key: bytes, certificates: bytes) -> dict[str, Any]:
    """The file of the certificate that clients are shown (a discovery response of SDS); both are PEM."""
    pair = {"private_key": key, "certificate_chain": certificates}
    secret = {
        "@type": f"{_TYPES}.extensions.transport_sockets.tls.v3.Secret",
        "name": _CERTIFICATE,
        "tls_certificate": {name: {"inline_bytes": b64encode(pem).decode()} for name, pem in pair.items()},
    }
    return {"resources": [secret]}


def _pipe(options: BootstrapOptions, name: str) -> dict[str, Any]:
    return {"pipe": {"path": f"{options.directory}/{name}"}}


def _extension(kind: str, **fields: Any) -> dict[str, Any]:
    return {"@type": f"{_TYPES}.extensions.{kind}", **fields}


def _seconds(seconds: float) -> str:
    return f"{seconds:g}s"


def _listener(options: BootstrapOptions) -> dict[str, Any]:
    manager = _extension(
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="ingress",
        stream_idle_timeout="0s",
        use_remote_address=True,
        # Whose address counts as internal may set headers of Envoy's own, retries among them: nobody.
        internal_address_config={"cidr_ranges": [{"address_prefix": "0.0.0.0", "prefix_len": 32}]},
        preserve_external_request_id=True,
        server_header_transformation="PASS_THROUGH",
        http_filters=[
            {"name": _CHECK_NAMESPACE, "typed_config": _check(options)},
            {"name": "json_to_metadata", "typed_config": _json_usage()},
            {"name": "sse_to_metadata", "typed_config": _event_usage()},
            {
                "name": "router",
                "typed_config": _extension("filters.http.router.v3.Router", suppress_envoy_headers=True),
            },
        ],
        route_config={"virtual_hosts": [_virtual_host(options)]},
        upgrade_configs=[{"upgrade_type": "websocket"}],
        local_reply_config={"mappers": local_replies(options.max_body_bytes)},
        access_log=[{"name": "stdout", "typed_config": _access_log()}],
    )
    chain: dict[str, Any] = {"filters": [{"name": "http", "typed_config": manager}]}
    if options.tls:
        chain["transport_socket"] = {"name": "tls", "typed_config": _tls(options)}
    return {
        "name": "ingress",
        "address": {"socket_address": {"address": options.host, "port_value": options.port}},
        "per_connection_buffer_limit_bytes": options.max_body_bytes,
        "filter_chains": [chain],
    }


def _watched(options: BootstrapOptions, name: str) -> dict[str, Any]:
    """A file that is read anew when another takes its place."""
    return {"path": f"{options.directory}/{name}", "watched_directory": {"path": options.directory}}


def _tls(options: BootstrapOptions) -> dict[str, Any]:
    version = f"TLSv1_{options.min_tls[-1]}"
    source = {"path_config_source": _watched(options, CERTIFICATE_FILE)}
    common = {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {"tls_minimum_protocol_version": version},
        "tls_certificate_sds_secret_configs": [{"name": _CERTIFICATE, "sds_config": source}],
    }
    return _extension("transport_sockets.tls.v3.DownstreamTlsContext", common_tls_context=common)


def _exactly(names: Iterable[str]) -> dict[str, Any]:
    return {"patterns": [{"exact": name} for name in names]}


def _check(options: BootstrapOptions) -> dict[str, Any]:
    """Ask epp, with the whole body; without an answer go on, and let the fallback policy choose."""
    timeout = _seconds(options.check_timeout_s)
    return _extension(
        "filters.http.ext_authz.v3.ExtAuthz",
        failure_mode_allow=True,
        with_request_body={"max_request_bytes": options.max_body_bytes},
        allowed_headers={"patterns": [{"safe_regex": {"regex": ".*"}}]},
        disallowed_headers=_exactly(["transfer-encoding", "expect", "connection", "upgrade"]),
        http_service={
            "server_uri": {"uri": "http://epp", "cluster": "checks", "timeout": timeout},
            "authorization_response": {
                "allowed_upstream_headers": _exactly(["authorization", "x-request-id", "x-envoy-retry-on"]),
                "allowed_client_headers": _exactly(_DENIED_HEADERS),
                # Metadata, which no client can set and no endpoint sees.
                "dynamic_metadata_from_headers": _exactly([DESTINATION, EXCHANGE]),
            },
        },
    )


def _usage_rules() -> list[dict[str, Any]]:
    return [
        {
            "selectors": [{"key": part} for part in path],
            "on_present": {"metadata_namespace": _USAGE_NAMESPACE, "key": key, "type": "NUMBER"},
        }
        for key, path in _USAGE.items()
    ]


def _json_usage() -> dict[str, Any]:
    return _extension(
        "filters.http.json_to_metadata.v3.JsonToMetadata", response_rules={"rules": _usage_rules()}
    )


def _event_usage() -> dict[str, Any]:
    parser = _extension(
        "content_parsers.json.v3.JsonContentParser", rules=[{"rule": rule} for rule in _usage_rules()]
    )
    return _extension(
        "filters.http.sse_to_metadata.v3.SseToMetadata",
        response_rules={
            "content_parser": {"name": "envoy.content_parsers.json", "typed_config": parser},
            "max_event_size": 1 << 20,
        },
    )


def _access_log() -> dict[str, Any]:
    usage = {key: f"%DYNAMIC_METADATA({_USAGE_NAMESPACE}:{key})%" for key in _USAGE}
    line = {
        "exchange": f"%DYNAMIC_METADATA({_CHECK_NAMESPACE}:{EXCHANGE})%",
        "status": "%RESPONSE_CODE%",
        "flags": "%RESPONSE_FLAGS%",
        "served": "%UPSTREAM_REMOTE_ADDRESS%",
        "first_ms": "%RESPONSE_DURATION%",
        "bytes": "%BYTES_SENT%",
        "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
        **usage,
    }
    return _extension("access_loggers.stream.v3.StdoutAccessLog", log_format={"json_format": line})


def _virtual_host(options: BootstrapOptions) -> dict[str, Any]:
    return {
        "name": "all",
        "domains": ["*"],
        "routes": [*(_control_route(path) for path in options.control_paths), _servers_route(options)],
    }


def _control_route(path: str) -> dict[str, Any]:
    unchecked = _extension("filters.http.ext_authz.v3.ExtAuthzPerRoute", disabled=True)
    return {
        "match": {"path": path},
        "route": {"cluster": "control"},
        "typed_per_filter_config": {_CHECK_NAMESPACE: unchecked},
    }


def _servers_route(options: BootstrapOptions) -> dict[str, Any]:
    told = [("x-request-id", "%REQ(X-REQUEST-ID)%")]
    if options.expose_endpoint:
        told.append(("x-epp-endpoint", "%UPSTREAM_REMOTE_ADDRESS%"))
    route: dict[str, Any] = {
        "cluster": _CLUSTER,
        "timeout": _seconds(options.total_timeout_s),
        "idle_timeout": _seconds(options.idle_timeout_s),
    }
    if options.retries:
        route["retry_policy"] = {
            "retry_on": _RETRY_ON,
            "num_retries": options.retries,
            "retriable_status_codes": [_UNAVAILABLE],
            "retry_back_off": {"base_interval": "0.001s", "max_interval": "0.001s"},
        }
    return {
        "match": {"prefix": "/"},
        "route": route,
        "response_headers_to_remove": ["x-epp-decision"],
        "response_headers_to_add": [
            {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            for key, value in told
        ],
    }


def _breakers() -> dict[str, Any]:
    names = ("max_connections", "max_pending_requests", "max_requests", "max_retries")
    return {"thresholds": [dict.fromkeys(names, _MANY)]}


def _http1(idle_timeout_s: float) -> dict[str, Any]:
    """A cluster's HTTP/1.1 connections, closed when unused for so long; 0: never."""
    kind = "extensions.upstreams.http.v3.HttpProtocolOptions"
    options = {
        "@type": f"{_TYPES}.{kind}",
        "explicit_http_config": {"http_protocol_options": {}},
        "common_http_protocol_options": {"idle_timeout": _seconds(idle_timeout_s)},
    }
    return {"typed_extension_protocol_options": {f"envoy.{kind}": options}}


def _local(name: str, address: dict[str, Any]) -> dict[str, Any]:
    """A cluster whose one member is this process.

    Unused connections are kept: one that ends tells that its answer was not read (`Checks.unread`).
    """
    member = {"lb_endpoints": [{"endpoint": {"address": address}}]}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": _breakers(),
        "load_assignment": {"cluster_name": name, "endpoints": [member]},
        **_http1(0),
    }


def _servers(options: BootstrapOptions) -> dict[str, Any]:
    source = _watched(options, ENDPOINTS_FILE)
    return {
        "name": _CLUSTER,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": {"path_config_source": source}},
        "connect_timeout": _seconds(options.connect_timeout_s),
        "circuit_breakers": _breakers(),
        **_http1(max(options.keep_alive_s, 0.001)),
        "load_balancing_policy": {"policies": [{"typed_extension_config": _override_host()}]},
    }


def _override_host() -> dict[str, Any]:
    """To the endpoints that were picked, in their order; who is none of the file's is passed over."""
    fallback = {
        "name": "round_robin",
        "typed_config": _extension("load_balancing_policies.round_robin.v3.RoundRobin"),
    }
    source = {"metadata": {"key": _CHECK_NAMESPACE, "path": [{"key": DESTINATION}]}}
    policy = _extension(
        "load_balancing_policies.override_host.v3.OverrideHost",
        override_host_sources=[source],
        fallback_policy={"policies": [{"typed_extension_config": fallback}]},
    )
    return {"name": "override_host", "typed_config": policy}
