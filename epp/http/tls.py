"""TLS in both directions, from files in PEM.

Both speak TLS 1.2 with forward secrecy and authenticated encryption, and TLS 1.3; HTTP/1.1 is all they offer.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["EndpointTls", "ListenerTls", "TlsFileError", "endpoint_context", "listener_context"]

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
# Of TLS 1.2: those of Mozilla's "intermediate" that need no parameters of our own. TLS 1.3 has its own list.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
_PROTOCOLS: Final = ["http/1.1"]


class TlsFileError(Exception):
    """A certificate, key or list of CAs cannot be used; says which file and why."""


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """TLS of a port. `client_ca`: clients must show a certificate of one of these CAs; None asks for none."""

    cert: str
    key: str
    client_ca: str | None = None
    min_version: str = "1.2"

    @property
    def files(self) -> tuple[str, ...]:
        """What it is made of."""
        return tuple(file for file in (self.cert, self.key, self.client_ca) if file is not None)


@dataclass(frozen=True, slots=True)
class EndpointTls:
    """TLS towards endpoints.

    Attributes:
        ca: CAs that endpoints' certificates must come from; None: those that the system trusts.
        cert, key: what this client shows; None: nothing.
        verify: False takes any certificate of anybody.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """What it is made of."""
        return tuple(file for file in (self.ca, self.cert, self.key) if file is not None)


def listener_context(tls: ListenerTls) -> ssl.SSLContext:
    """What a port needs to speak TLS; reads the files.

    Raises:
        TlsFileError: one cannot be used, or certificate and key do not belong together.
    """
    context = _modern(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.minimum_version = _VERSIONS[tls.min_version]
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_pair(context, tls.cert, tls.key)
    if tls.client_ca is not None:
        _load_cas(context, tls.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def endpoint_context(tls: EndpointTls) -> ssl.SSLContext:
    """What connections to endpoints need to speak TLS; reads the files.

    Raises:
        TlsFileError: one cannot be used, or certificate and key do not belong together.
    """
    context = _modern(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca is None:
        context.load_default_certs()
    else:
        _load_cas(context, tls.ca)
    if tls.cert is not None and tls.key is not None:
        _load_pair(context, tls.cert, tls.key)
    return context


def _modern(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(_PROTOCOLS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    return context


def _load_pair(context: ssl.SSLContext, cert: str, key: str) -> None:
    for file in (cert, key):
        _load(file, Path(file).read_bytes)  # OpenSSL does not say which of the two it cannot read
    _load(f"{cert} with {key}", lambda: context.load_cert_chain(cert, key, password=_no_password))


def _load_cas(context: ssl.SSLContext, file: str) -> None:
    _load(file, lambda: context.load_verify_locations(cafile=file))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate CA may stand for its own


def _no_password() -> str:
    """Without it OpenSSL would ask on the terminal."""
    raise ValueError("the key is encrypted; give it without a passphrase")


def _load(what: str, load: Callable[[], object]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise TlsFileError(f"{what}: {error.reason or 'not a certificate and a key in PEM'}") from None
    except OSError as error:
        raise TlsFileError(f"{what}: {error.strerror or error}") from None
    except ValueError as error:
        raise TlsFileError(f"{what}: {error}") from None
