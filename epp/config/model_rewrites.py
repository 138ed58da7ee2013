"""The setting `modelRewrite`: models that clients name, and what they are sent to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from epp.config.document import MappingNode, Node, Scalar, SequenceNode, describe
from epp.config.reader import Reader

__all__ = ["ANY_MODEL", "ModelRewrite", "read_model_rewrites"]

ANY_MODEL: Final = "*"
_WEIGHTS: Final = range(1, 1_000_001)
_WEIGHTED: Final = re.compile(r"([0-9]{1,7})\*(.+)", re.DOTALL)
_REMEDY: Final = "write MODEL=TARGET or MODEL=WEIGHT*TARGET,WEIGHT*TARGET with weights from 1 to 1000000"


@dataclass(frozen=True, slots=True)
class ModelRewrite:
    """Requests for `model` (`*`: any, or none) go to one of `targets`, names with weights."""

    model: str
    targets: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """As a flag has it."""
        if len(self.targets) == 1:
            return f"{self.model}={self.targets[0][0]}"
        return f"{self.model}=" + ",".join(f"{weight}*{target}" for target, weight in self.targets)


def read_model_rewrites(reader: Reader, node: Node, path: str) -> tuple[ModelRewrite, ...]:
    """`MODEL=TARGETS`, a list of such, or a mapping; each model stands once."""
    found: dict[str, ModelRewrite] = {}
    for item_path, item, model, targets in _written(reader, node, path):
        if not model or not targets or not all(target and weight in _WEIGHTS for target, weight in targets):
            reader.problem(item_path, item, f"is no model rewrite: {describe(item)}", _REMEDY)
        elif len({target for target, _ in targets}) < len(targets):
            reader.problem(item_path, item, f"names a target of {model} twice", "add up its weights")
        elif model in found:
            reader.problem(item_path, item, f"model {model} is given twice", "give all its targets at once")
        else:
            found[model] = ModelRewrite(model, targets)
    return tuple(found.values())


def _written(
    reader: Reader, node: Node, path: str
) -> Iterator[tuple[str, Node, str, tuple[tuple[str, int], ...]]]:
    """Path, place, model and targets of each; no targets: they cannot be read."""
    if isinstance(node, MappingNode):
        for entry in node.entries:
            yield f"{path}.{entry.key}", entry.value, entry.key, _targets_of(entry.value)
        return
    items = reader.items(node, path) if isinstance(node, SequenceNode) else [(path, node)]
    for item_path, item in items:
        model, _, targets = (item.text if isinstance(item, Scalar) else "").partition("=")
        yield item_path, item, model, _parse_targets(targets)


def _targets_of(node: Node) -> tuple[tuple[str, int], ...]:
    """In a mapping: a model, or models with their weights."""
    if isinstance(node, Scalar):
        return ((node.text, 1),)
    if isinstance(node, MappingNode):
        return tuple((entry.key, _weight(entry.value)) for entry in node.entries)
    return ()


def _weight(node: Node) -> int:
    text = node.text if isinstance(node, Scalar) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0


def _parse_targets(text: str) -> tuple[tuple[str, int], ...]:
    """`TARGET`, or targets with weights; where there are several, each has one."""
    parts = text.split(",")
    weighted = [_WEIGHTED.fullmatch(part) for part in parts]
    if len(parts) == 1 and weighted[0] is None:
        return ((text, 1),)
    return tuple((match.group(2), int(match.group(1))) if match else ("", 0) for match in weighted)
