"""How an operator writes an endpoint: `http://host:port,label=value,…`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from epp.endpoints.types import EndpointSpec

__all__ = ["WrittenUrl", "parse_endpoint", "parse_endpoints", "read_url"]

_EXAMPLE: Final = "write it like http://10.0.0.1:8000 or http://10.0.0.1:8000,zone=a"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?|[0-9a-f:.]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class WrittenUrl:
    """`scheme://host:port,label=value,…` in its parts; `given_port` is None where the default applies."""

    scheme: str
    host: str
    given_port: int | None
    labels: Mapping[str, str]

    @property
    def port(self) -> int:
        """The port that is given, else that of the scheme."""
        return self.given_port or _DEFAULT_PORTS[self.scheme]


def parse_endpoint(text: str) -> EndpointSpec:
    """One endpoint as `scheme://host:port`, labels after commas.

    `http://` may be left out; the port is 80 or 443 where it is left out. IPv6 hosts stand in brackets.

    Raises:
        ValueError: says what is wrong and how to write it. Credentials in the text are not repeated.
    """
    url = read_url(text, "the endpoint", _EXAMPLE)
    return EndpointSpec(scheme=url.scheme, host=url.host, port=url.port, labels=url.labels)


def read_url(text: str, what: str, example: str) -> WrittenUrl:
    """The parts of a text that is called `what` in messages, which end in `example`.

    Raises:
        ValueError: says what is wrong and how to write it. Credentials in the text are not repeated.
    """
    url, *labels = (part.strip() for part in text.split(","))
    try:
        parts = _split(url, what)
        return WrittenUrl(parts.scheme, _host(parts), _port(parts), dict(_labels(labels)))
    except _FormError as error:
        raise ValueError(f"{error}; {example}") from None


class _FormError(ValueError):
    """A fault that an example of the right form explains best."""


def parse_endpoints(texts: Iterable[str]) -> tuple[EndpointSpec, ...]:
    """Several endpoints, each address once.

    Raises:
        ValueError: one is malformed, or an address is given twice.
    """
    specs: dict[str, EndpointSpec] = {}
    for text in texts:
        spec = parse_endpoint(text)
        if spec.address in specs:
            raise ValueError(f"endpoint {spec.address} is given twice; give it once, with all its labels")
        specs[spec.address] = spec
    return tuple(specs.values())


def _split(url: str, what: str) -> SplitResult:
    if not url:
        raise _FormError(f"{what} is empty")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
    except ValueError as error:
        raise _FormError(f"{what} is not a URL ({error})") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise _FormError(f"scheme {parts.scheme!r} is not http or https")
    if "@" in parts.netloc:
        raise ValueError(f"{what} holds credentials; they are never sent from here, leave them out")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        extra = (
            url.partition("://")[2].partition(parts.netloc)[2] if "://" in url else url[len(parts.netloc) :]
        )
        raise ValueError(
            f"{what} goes on after the port with {extra!r}; give scheme, host and port only, "
            "request paths are kept as clients send them"
        )
    return parts


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if not _HOST.fullmatch(host):
        raise _FormError(f"host {host!r} is not a name or an address")
    return host


def _port(parts: SplitResult) -> int | None:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise _FormError(f"the port in {parts.netloc!r} is not a number from 1 to 65535")
    return port


def _labels(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    seen: set[str] = set()
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals):
            raise _FormError(f"label {text!r} is not of the form key=value")
        if key in seen:
            raise ValueError(f"label {key!r} is given twice")
        seen.add(key)
        yield key, value
