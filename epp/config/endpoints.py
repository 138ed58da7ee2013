"""Endpoints and DNS names as settings and endpoint files write them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from epp.config.document import MappingNode, Node, SequenceNode
from epp.config.reader import Reader
from epp.endpoints.dns_name import DnsName, parse_dns_name
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import EndpointSpec

__all__ = ["read_dns_names", "read_endpoint", "read_endpoints", "read_labels"]

_URL_KEYS: Final = ("url", "labels")

Item = TypeVar("Item", EndpointSpec, DnsName)


def read_endpoints(reader: Reader, node: Node, path: str) -> tuple[EndpointSpec, ...]:
    """A list of endpoints; one alone need not be a list. Each address stands once."""

    def read(item: Node, item_path: str) -> EndpointSpec | None:
        return read_endpoint(reader, item, item_path)

    return _read_each(reader, node, path, read, lambda spec: f"endpoint {spec.address}")


def read_dns_names(reader: Reader, node: Node, path: str) -> tuple[DnsName, ...]:
    """A list of DNS names; one alone need not be a list. Each stands once."""

    def read(item: Node, item_path: str) -> DnsName | None:
        return _read_url(reader, item, item_path, parse_dns_name)

    return _read_each(reader, node, path, read, lambda name: f"name {name.url}")


def _read_each(
    reader: Reader,
    node: Node,
    path: str,
    read: Callable[[Node, str], Item | None],
    identity: Callable[[Item], str],
) -> tuple[Item, ...]:
    items = reader.items(node, path) if isinstance(node, SequenceNode) else [(path, node)]
    found: dict[str, Item] = {}
    for item_path, item in items:
        value = read(item, item_path)
        if value is not None and identity(value) in found:
            message = f"{identity(value)} is given twice"
            reader.problem(item_path, item, message, "give it once, with all its labels")
        elif value is not None:
            found[identity(value)] = value
    return tuple(found.values())


def read_endpoint(reader: Reader, node: Node, path: str) -> EndpointSpec | None:
    """`URL,label=value,…`, or a mapping with `url` and `labels`; None after a fault."""
    return _read_url(reader, node, path, parse_endpoint)


def _read_url(reader: Reader, node: Node, path: str, parse: Callable[[str], Item]) -> Item | None:
    labels: dict[str, str] = {}
    text: str | None
    if isinstance(node, MappingNode):
        fields = reader.fields(node, path, _URL_KEYS)
        labels = read_labels(reader, fields.get("labels"), f"{path}.labels")
        text = reader.string(fields.get("url"), f"{path}.url") or ""
    else:
        text = reader.string(node, path)
    if text is None:
        return None
    try:
        item = parse(text)
    except ValueError as error:
        reader.problem(path, node, str(error))
        return None
    for key in sorted(item.labels.keys() & labels.keys()):
        reader.problem(path, node, f"label {key!r} is given twice")
    return replace(item, labels={**item.labels, **labels}) if labels else item


def read_labels(reader: Reader, node: Node | None, path: str) -> dict[str, str]:
    """A mapping of labels; values are texts, whatever they look like."""
    return {
        entry.key: reader.string(entry.value, f"{path}.{entry.key}") or ""
        for entry in reader.entries(node, path)
    }
