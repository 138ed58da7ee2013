"""The endpoint file: our lists of URLs, and the format of the Go picker's plugin file-discovery."""

import re
from dataclasses import replace
from typing import Final

from epp.config.document import MappingNode, Node, Scalar, SequenceNode, describe, parse
from epp.config.endpoints import read_endpoint, read_labels
from epp.config.reader import Reader
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import EndpointSpec
from epp.errors import ConfigError

__all__ = ["MAX_FILE_BYTES", "read_endpoint_file"]

MAX_FILE_BYTES: Final = 1 << 20  # as in the Go picker

_KEY: Final = "endpoints"
_GO_KEYS: Final = ("name", "namespace", "address", "port", "labels")
_DEFAULT_NAMESPACE: Final = "default"
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_HIGHEST_PORT: Final = 65_535
_FORMS: Final = "write a list of URLs, of mappings with url, or of mappings with name, address and port"


def read_endpoint_file(text: str, source: str = "endpoint file") -> tuple[EndpointSpec, ...]:
    """The endpoints of a file in YAML or JSON: a list, bare or under the key `endpoints`.

    An element is a URL (`http://host:port,label=value,…`), a mapping with `url` and `labels`, or what the Go
    picker reads: `name`, `namespace` (default "default"), `address` (here also IPv6 or a name), `port` (a
    number, quoted or not) and `labels`. Addresses, and names within a namespace, are unique. An empty list
    has no endpoints, an empty file is a fault.

    Raises:
        ConfigError: with every problem found.
    """
    reader = Reader()
    parsed = parse(text)
    reader.problems += parsed.problems
    specs = _read_documents(reader, parsed.documents)
    if reader.problems:
        raise ConfigError(reader.problems, source)
    return specs


def _read_documents(reader: Reader, documents: tuple[Node, ...]) -> tuple[EndpointSpec, ...]:
    if not documents:
        if not reader.problems:
            reader.problem("document", None, "is empty", f"write {_KEY}: [] to say that there is none")
        return ()
    if len(documents) > 1:
        reader.problem("document", documents[1], "is followed by another one", "keep one")
    root = documents[0]
    if isinstance(root, SequenceNode):
        return _read_list(reader, root, _KEY)
    if not isinstance(root, MappingNode):
        reader.problem("document", root, f"must be a list, not {describe(root)}", _FORMS)
        return ()
    listed = reader.fields(root, "", (_KEY,)).get(_KEY)
    if listed is None:
        reader.problem(_KEY, root, "is missing", f"write {_KEY}: [] to say that there is none")
    return _read_list(reader, listed, _KEY)


def _read_list(reader: Reader, node: Node | None, path: str) -> tuple[EndpointSpec, ...]:
    specs: dict[str, EndpointSpec] = {}
    names: set[tuple[str, str]] = set()
    for item_path, item in reader.items(node, path):
        spec = _read_item(reader, item, item_path)
        if spec is None:
            continue
        if spec.address in specs:
            reader.problem(item_path, item, f"endpoint {spec.address} is given twice", "keep one of them")
        elif spec.name and (spec.namespace, spec.name) in names:
            message = f"name {spec.name!r} is given twice in namespace {spec.namespace!r}"
            reader.problem(item_path, item, message, "give each endpoint a name of its own")
        specs[spec.address] = spec
        names.add((spec.namespace, spec.name))
    return tuple(specs.values())


def _read_item(reader: Reader, node: Node, path: str) -> EndpointSpec | None:
    if isinstance(node, MappingNode) and node.get("url") is None:
        return _read_go_item(reader, node, path)
    return read_endpoint(reader, node, path)


def _read_go_item(reader: Reader, node: MappingNode, path: str) -> EndpointSpec | None:
    """`name`, `namespace`, `address`, `port`, `labels`; None after a fault."""
    fields = reader.fields(node, path, _GO_KEYS)
    before = len(reader.problems)
    address = _required(reader, fields.get("address"), f"{path}.address", node)
    port = _read_port(reader, fields.get("port"), f"{path}.port", node)
    name = reader.string(fields.get("name"), f"{path}.name") or ""
    namespace = reader.string(fields.get("namespace"), f"{path}.namespace") or _DEFAULT_NAMESPACE
    labels = read_labels(reader, fields.get("labels"), f"{path}.labels")
    if len(reader.problems) > before:
        return None
    host = f"[{address}]" if ":" in address else address
    try:
        spec = parse_endpoint(f"http://{host}:{port}")
    except ValueError:
        remedy = "write an IP address or a host name alone"
        reader.problem(f"{path}.address", node, f"{address!r} is not an address", remedy)
        return None
    return replace(spec, name=name, namespace=namespace, labels=labels)


def _required(reader: Reader, node: Node | None, path: str, parent: Node) -> str:
    if node is None:
        reader.problem(path, parent, "is missing", _FORMS)
        return ""
    return reader.string(node, path) or ""


def _read_port(reader: Reader, node: Node | None, path: str, parent: Node) -> int:
    """A port, 0 after a fault."""
    if node is None:
        reader.problem(path, parent, "is missing", _FORMS)
        return 0
    text = node.text if isinstance(node, Scalar) else ""
    if not _PORT.fullmatch(text) or int(text) > _HIGHEST_PORT:
        reader.problem(path, node, f"must be a number from 1 to {_HIGHEST_PORT}, not {describe(node)}")
        return 0
    return int(text)
