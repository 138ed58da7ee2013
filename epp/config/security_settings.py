"""Settings of certificates and of clients' keys; sections of `Settings`."""

from dataclasses import dataclass, field

from epp.config.leaf import rules
from epp.security import ClientKey

__all__ = ["AdminTlsSettings", "ApiKeySettings", "EndpointTlsSettings", "TlsSettings"]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS towards clients."""

    cert: str | None = field(
        default=None,
        metadata=rules(
            "File with the certificate and its chain (PEM); with it the port speaks TLS only.",
            absent="none: plain HTTP",
        ),
    )
    key: str | None = field(
        default=None, metadata=rules("File with its private key (PEM, no passphrase).", absent="none")
    )
    client_ca: str | None = field(
        default=None,
        metadata=rules(
            "File with CAs (PEM); clients must show a certificate of one of them.",
            absent="no certificate is asked for",
        ),
    )
    min_version: str = field(
        default="1.2", metadata=rules("Least version of TLS, on every port.", choices=("1.2", "1.3"))
    )


@dataclass(frozen=True, slots=True)
class AdminTlsSettings:
    """TLS on the admin listener."""

    enabled: bool = field(
        default=True,
        metadata=rules("Speak TLS on adminPort too, if there is a certificate; false: plain HTTP."),
    )
    cert: str | None = field(
        default=None,
        metadata=rules("File with a certificate of its own and its chain (PEM).", absent="tls.cert"),
    )
    key: str | None = field(
        default=None, metadata=rules("File with its private key (PEM, no passphrase).", absent="tls.key")
    )
    client_ca: str | None = field(
        default=None,
        metadata=rules(
            "File with CAs (PEM); callers must show a certificate of one of them, probes too.",
            absent="no certificate is asked for",
        ),
    )


@dataclass(frozen=True, slots=True)
class ApiKeySettings:
    """Keys of clients: with any of them, requests need one."""

    key: tuple[ClientKey, ...] = field(
        default=(),
        metadata=rules(
            "A key: KEY, sha256:HEX, NAME=KEY or NAME=sha256:HEX. A flag shows in the process list.",
            absent="none",
        ),
    )
    file: str | None = field(
        default=None,
        metadata=rules("File with a key a line, written the same way; # begins a comment.", absent="none"),
    )
    metrics: bool = field(default=False, metadata=rules("Ask for a key on /metrics too."))


@dataclass(frozen=True, slots=True)
class EndpointTlsSettings:
    """TLS towards endpoints whose URL begins with https."""

    ca: str | None = field(
        default=None,
        metadata=rules(
            "File with CAs (PEM) that endpoints' certificates must come from.", absent="the system's"
        ),
    )
    cert: str | None = field(
        default=None,
        metadata=rules("File with a certificate (PEM) to show to endpoints.", absent="none is shown"),
    )
    key: str | None = field(
        default=None, metadata=rules("File with its private key (PEM, no passphrase).", absent="none")
    )
    server_name: str | None = field(
        default=None,
        metadata=rules("Name that endpoints' certificates must be for.", absent="each endpoint's host"),
    )
    insecure_skip_verify: bool = field(
        default=False,
        metadata=rules("Take any certificate of anybody: no protection against a man in the middle."),
    )
