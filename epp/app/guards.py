"""From server settings to what guards the router: certificates, keys, trusted proxies."""

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from epp.api.access import AccessPolicy
from epp.app.watched import WatchedFiles
from epp.config import Settings
from epp.config.leaf import Secret
from epp.config.reader import Reader
from epp.config.values import credential
from epp.errors import ConfigError, ConfigProblem
from epp.http import (
    Credentials,
    EndpointTls,
    ListenerTls,
    TlsFileError,
    endpoint_context,
    listener_context,
)
from epp.security import ClientKey, KeyGate, KeyRing, TrustedProxies, parse_keys

__all__ = [
    "ADMIN_TLS", "ENDPOINT_KEY", "ENDPOINT_TLS", "LISTENER_TLS", "Guards", "bearer", "build_guards",
    "endpoint_tls_context",
]  # fmt: skip

# Names by which watched files are known; sections of the settings.
LISTENER_TLS: Final = "tls"
ADMIN_TLS: Final = "adminTls"
ENDPOINT_TLS: Final = "upstream.tls"
_API_KEYS: Final = "apiKeys"
_ADMIN_KEY: Final = "adminKey"
ENDPOINT_KEY: Final = "endpointKey"

# Routes of our own that show or decide something for clients.
_KEYED_PATHS: Final = frozenset({"/load", "/pick", "/v1/models"})
_CLIENT_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Guards:
    """What is None is not configured.

    Attributes:
        access: who may see receipts.
        gate: asks clients for keys.
        keyed_paths: routes of our own that need a key, beside everything that is relayed.
        proxies: peers that are believed whom they forward for.
        credentials: what endpoints get instead of the clients' credentials.
        endpoint_key: the key among them; it may be exchanged later.
        tls, admin_tls: contexts of the listeners.
        endpoint_tls: context of connections to `https` endpoints.
        warnings: what an operator should know.
    """

    access: AccessPolicy
    gate: KeyGate | None
    keyed_paths: frozenset[str]
    proxies: TrustedProxies | None
    credentials: Credentials | None
    endpoint_key: str | None
    tls: ssl.SSLContext | None
    admin_tls: ssl.SSLContext | None
    endpoint_tls: ssl.SSLContext | None
    warnings: tuple[str, ...]


def build_guards(settings: Settings, files: WatchedFiles) -> Guards:
    """Read what the settings name; it is read anew through `files`.

    Raises:
        ConfigError: a file cannot be used.
    """
    proxies = TrustedProxies(settings.trusted_proxies) if settings.trusted_proxies else None
    gate = _gate(settings, files)
    endpoint_key = _key(files, ENDPOINT_KEY, settings.endpoint_key, settings.endpoint_key_file)
    return Guards(
        access=_access(settings, files, proxies),
        gate=gate,
        keyed_paths=_KEYED_PATHS | ({"/metrics"} if settings.api_keys.metrics else set()),
        proxies=proxies,
        credentials=_credentials(endpoint_key, keyed=gate is not None),
        endpoint_key=endpoint_key,
        tls=_listener_context(files, LISTENER_TLS, _tls(settings)),
        admin_tls=_listener_context(files, ADMIN_TLS, _admin_tls(settings)),
        endpoint_tls=_endpoint_context(files, _endpoint_tls(settings)),
        warnings=tuple(_warnings(settings)),
    )


def _listener_context(files: WatchedFiles, name: str, tls: ListenerTls | None) -> ssl.SSLContext | None:
    return None if tls is None else _watched(files, name, tls.files, lambda: listener_context(tls))


def _endpoint_context(files: WatchedFiles, tls: EndpointTls | None) -> ssl.SSLContext | None:
    return None if tls is None else _watched(files, ENDPOINT_TLS, tls.files, lambda: endpoint_context(tls))


def endpoint_tls_context(settings: Settings) -> ssl.SSLContext | None:
    """The context of connections to `https` endpoints, for a command that asks them once.

    Raises:
        ConfigError: a file cannot be used.
    """
    tls = _endpoint_tls(settings)
    try:
        return None if tls is None else endpoint_context(tls)
    except TlsFileError as error:
        raise ConfigError([ConfigProblem(ENDPOINT_TLS, str(error))], "settings") from None


def _watched(files: WatchedFiles, name: str, paths: Sequence[str], load: Callable[[], T]) -> T:
    try:
        return files.add(name, paths, load)
    except (TlsFileError, _KeyFileError) as error:
        raise ConfigError([ConfigProblem(name, str(error))], "settings") from None


class _KeyFileError(Exception):
    """A file of keys cannot be used."""


def _gate(settings: Settings, files: WatchedFiles) -> KeyGate | None:
    given, file = settings.api_keys.key, settings.api_keys.file
    if file is None:
        return KeyGate(KeyRing(given)) if given else None
    gate = KeyGate(_watched(files, _API_KEYS, [file], lambda: KeyRing((*given, *_file_keys(file)))))

    async def replace(keys: KeyRing) -> None:
        gate.keys = keys

    files.on_change(_API_KEYS, replace)
    return gate


def _file_keys(file: str) -> tuple[ClientKey, ...]:
    try:
        return parse_keys(_text_of(file))
    except ValueError as error:
        raise _KeyFileError(f"{file}: {error}") from None


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise _KeyFileError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise _KeyFileError(f"{file}: it is not UTF-8") from None


def _access(settings: Settings, files: WatchedFiles, proxies: TrustedProxies | None) -> AccessPolicy:
    key = _key(files, _ADMIN_KEY, settings.admin_key, settings.admin_key_file)
    access = AccessPolicy(key, proxies=proxies, loopback=settings.receipts.loopback)

    async def replace(admin_key: str) -> None:
        access.admin_key = admin_key

    files.on_change(_ADMIN_KEY, replace)
    return access


def _key(files: WatchedFiles, name: str, given: Secret | None, file: str | None) -> str | None:
    """The one key that a setting gives, or that stands in a file."""
    if file is None:
        return given.value if given is not None else None
    return _watched(files, name, [file], lambda: _file_key(file))


def _file_key(file: str) -> str:
    reader = Reader()
    key = credential(reader, _text_of(file).strip(), file)
    if key is None:
        raise _KeyFileError("; ".join(str(problem) for problem in reader.problems))
    return key.value


def _credentials(endpoint_key: str | None, *, keyed: bool) -> Credentials | None:
    """Clients whose keys we check have none for the endpoints."""
    if endpoint_key is not None:
        return Credentials(_CLIENT_CREDENTIALS, bearer(endpoint_key))
    return Credentials(_CLIENT_CREDENTIALS) if keyed else None


def bearer(key: str) -> bytes:
    """The value of `authorization` that presents a key."""
    return b"Bearer " + key.encode("ascii")


def _tls(settings: Settings) -> ListenerTls | None:
    tls = settings.tls
    if tls.cert is None or tls.key is None:
        return None
    return ListenerTls(tls.cert, tls.key, tls.client_ca, tls.min_version)


def _admin_tls(settings: Settings) -> ListenerTls | None:
    """The admin listener may share the main one's certificate; client certificates are its own affair."""
    own, main = settings.admin_tls, settings.tls
    cert, key = (own.cert, own.key) if own.cert else (main.cert, main.key)
    if not (settings.admin_port and own.enabled) or cert is None or key is None:
        return None
    return ListenerTls(cert, key, own.client_ca, main.min_version)


def _endpoint_tls(settings: Settings) -> EndpointTls | None:
    tls = settings.upstream.tls
    if not (tls.ca or tls.cert or tls.insecure_skip_verify):
        return None
    return EndpointTls(tls.ca, tls.cert, tls.key, verify=not tls.insecure_skip_verify)


def _warnings(settings: Settings) -> list[str]:
    warnings: list[str] = []
    if settings.upstream.tls.insecure_skip_verify:
        warnings.append(
            "upstream.tls.insecureSkipVerify is on: whoever can stand between this router and an endpoint "
            "reads and changes every request; give upstream.tls.ca instead"
        )
    if settings.endpoint_key is not None and not (settings.api_keys.key or settings.api_keys.file):
        warnings.append(
            "endpointKey is set without apiKeys: whoever reaches this router uses the endpoints with its key"
        )
    return warnings
