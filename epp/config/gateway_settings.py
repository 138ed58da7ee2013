"""Settings of the endpoint picker for gateways; a section of `Settings`."""

from dataclasses import dataclass, field

from epp.config.leaf import rules

__all__ = ["GrpcSettings"]


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """Endpoint picker for gateways, over Envoy's external processing."""

    port: int = field(
        default=0,
        metadata=rules("Port on which gateways ask for endpoints. 0: none.", maximum=65535),
    )
    health_port: int = field(
        default=0,
        metadata=rules(
            "Port of gRPC health checks in plain text; they are answered on grpc.port too. 0: none.",
            maximum=65535,
        ),
    )
    secure: bool = field(
        default=True,
        metadata=rules(
            "Speak TLS on grpc.port: with the certificate in grpc.certPath, else with one made at the start.",
            alias="--secure-serving",
        ),
    )
    cert_path: str | None = field(
        default=None,
        metadata=rules(
            "Directory with tls.crt and tls.key (PEM), as a mounted secret has them; changes are followed.",
            absent="a self-signed certificate",
            alias="--cert-path",
        ),
    )
    response: str = field(
        default="headers",
        metadata=rules(
            "What is looked at of an answer that a gateway shows: nothing, its head, or all of it.",
            choices=("none", "headers", "full"),
        ),
    )
    subset_hint: bool = field(
        default=True,
        metadata=rules("Keep to the endpoints that a gateway allows in its subset hint."),
    )
