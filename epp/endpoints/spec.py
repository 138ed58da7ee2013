"""How an operator writes an endpoint: `http://host:port,label=value,…`."""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import SplitResult, urlsplit

from epp.endpoints.types import EndpointSpec

__all__ = ["parse_endpoint", "parse_endpoints"]

_EXAMPLE: Final = "write it like http://10.0.0.1:8000 or http://10.0.0.1:8000,zone=a"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?|[0-9a-f:.]+", re.ASCII)


def parse_endpoint(text: str) -> EndpointSpec:
    """One endpoint as `scheme://host:port`, labels after commas.

    `http://` may be left out; the port is 80 or 443 where it is left out. IPv6 hosts stand in brackets.

    Raises:
        ValueError: says what is wrong and how to write it. Credentials in the text are not repeated.
    """
    url, *labels = (part.strip() for part in text.split(","))
    if not url:
        raise ValueError(f"the endpoint is empty; {_EXAMPLE}")
    parts = _split(url)
    return EndpointSpec(
        scheme=parts.scheme,
        host=_host(parts),
        port=_port(parts),
        labels=dict(_labels(labels)),
    )


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


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
    except ValueError as error:
        raise ValueError(f"the endpoint is not a URL ({error}); {_EXAMPLE}") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError(f"scheme {parts.scheme!r} is not http or https; {_EXAMPLE}")
    if "@" in parts.netloc:
        raise ValueError("the endpoint holds credentials; they are never sent from here, leave them out")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        extra = (
            url.partition("://")[2].partition(parts.netloc)[2] if "://" in url else url[len(parts.netloc) :]
        )
        raise ValueError(
            f"the endpoint goes on after the port with {extra!r}; give scheme, host and port only, "
            "request paths are kept as clients send them"
        )
    return parts


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if not _HOST.fullmatch(host):
        raise ValueError(f"host {host!r} is not a name or an address; {_EXAMPLE}")
    return host


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port is None:
        return _DEFAULT_PORTS[parts.scheme]
    if port == 0:
        raise ValueError(f"the port in {parts.netloc!r} is not a number from 1 to 65535; {_EXAMPLE}")
    return port


def _labels(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    seen: set[str] = set()
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals):
            raise ValueError(f"label {text!r} is not of the form key=value; {_EXAMPLE}")
        if key in seen:
            raise ValueError(f"label {key!r} is given twice")
        seen.add(key)
        yield key, value
