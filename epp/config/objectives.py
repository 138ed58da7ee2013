"""The setting `objective`: names of objectives with their priorities."""

import re
from collections.abc import Iterator
from typing import Final

from epp.config.document import MappingNode, Node, Scalar, SequenceNode, describe
from epp.config.reader import Reader
from epp.flow.admission import Objective

__all__ = ["read_objectives"]

_NAME: Final = re.compile(r"[!-~]{1,253}")  # what a header can hold and a Kubernetes object can be called
_PRIORITY: Final = re.compile(r"[-+]?[0-9]{1,10}")
_INT32: Final = range(-(2**31), 2**31)
_REMEDY: Final = "write NAME=PRIORITY with a whole number, such as batch=-1"


def read_objectives(reader: Reader, node: Node, path: str) -> tuple[Objective, ...]:
    """`name=priority`, a list of such, or a mapping; each name stands once."""
    found: dict[str, Objective] = {}
    for item_path, item, name, priority in _written(reader, node, path):
        if not _NAME.fullmatch(name) or not _PRIORITY.fullmatch(priority) or int(priority) not in _INT32:
            reader.problem(item_path, item, f"is no objective: {describe(item)}", _REMEDY)
        elif name in found:
            reader.problem(item_path, item, f"objective {name} is given twice", "give it once")
        else:
            found[name] = Objective(name, int(priority))
    return tuple(found.values())


def _written(reader: Reader, node: Node, path: str) -> Iterator[tuple[str, Node, str, str]]:
    """Path, place, name and priority of each, as text."""
    if isinstance(node, MappingNode):
        for entry in node.entries:
            priority = entry.value.text if isinstance(entry.value, Scalar) else ""
            yield f"{path}.{entry.key}", entry.value, entry.key, priority
        return
    items = reader.items(node, path) if isinstance(node, SequenceNode) else [(path, node)]
    for item_path, item in items:
        name, _, priority = (item.text if isinstance(item, Scalar) else "").rpartition("=")
        yield item_path, item, name, priority
