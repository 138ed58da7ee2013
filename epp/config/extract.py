"""Finds the picker's configuration where operators keep it: a plain file, Helm values, or a ConfigMap.

The charts put it as a string under `inferenceExtension.pluginsCustomConfig.<file>` (GIE) or
`router.epp.pluginsCustomConfig.<file>` (llm-d), beside `pluginsConfigFile`, which names the file in use; a
ConfigMap holds it under `data.<file>`. Any string that is an EndpointPickerConfig is found, wherever it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from epp.config.document import MappingNode, Node, Scalar, SequenceNode, parse
from epp.config.effective import EffectiveConfig
from epp.config.load import KIND, load_config
from epp.config.reader import listed
from epp.errors import ConfigError, ConfigProblem

__all__ = ["Extracted", "extract_config", "load_any_config"]

_KIND: Final = re.compile(rf"""(^|[{{,])\s*["']?kind["']?\s*:\s*["']?{KIND}\b""", re.MULTILINE)
_SELECTOR: Final = "pluginsConfigFile"


@dataclass(frozen=True, slots=True)
class Extracted:
    """A configuration as text.

    Attributes:
        text: what `load_config` reads.
        form: "plain file", "Helm values" or "ConfigMap".
        path: where in the file it stands, "" in a plain one.
        first_line: number of the text's first line in the file, where its lines are the file's; else 1.
    """

    text: str
    form: str
    path: str = ""
    first_line: int = 1


@dataclass(frozen=True, slots=True)
class _Found:
    text: Scalar
    place: "_Place"


def extract_config(text: str, source: str = "configuration") -> Extracted:
    """The one configuration in `text`. A text that holds none is taken for a plain file, faults and all.

    Raises:
        ConfigError: there are several, and nothing says which is in use; or a file that holds one is faulty.
    """
    parsed = parse(text)
    seen: set[int] = set()
    found = [f for document in parsed.documents for f in _search(document, _Place(), seen)]
    if not found:
        return Extracted(text, "plain file")
    if parsed.problems:
        raise ConfigError(list(parsed.problems), source)
    used = [f for f in found if f.place.key == f.place.selected] or found
    if len(used) > 1:
        message = f"holds {len(used)} configurations: {listed(f.place.path for f in used)}"
        raise ConfigError(
            [ConfigProblem("document", message, "keep one, or save it as a plain file")], source
        )
    node, place = used[0].text, used[0].place
    return Extracted(node.text, place.form, place.path, node.line + 1 if node.literal else 1)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the search stands; `selected` and `form` are inherited from the levels above."""

    path: str = ""
    key: str = ""
    selected: str | None = None
    form: str = "Helm values"


def _search(node: Node, place: _Place, seen: set[int]) -> Iterator[_Found]:
    """Every string below `node` that is a configuration; what several aliases share is visited once."""
    if isinstance(node, Scalar):
        if node.quoted and _KIND.search(node.text):
            yield _Found(node, place)
        return
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from _search(item, replace(place, path=f"{place.path}[{index}]"), seen)
        return
    form = "ConfigMap" if _text(node, "kind") == "ConfigMap" else place.form
    selected = _text(node, _SELECTOR) or place.selected
    for entry in node.entries:
        yield from _search(
            entry.value, _Place(_below(place.path, entry.key), entry.key, selected, form), seen
        )


def _text(node: MappingNode, key: str) -> str | None:
    value = node.get(key)
    return value.text if isinstance(value, Scalar) else None


def _below(path: str, key: str) -> str:
    if "." in key:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def load_any_config(text: str, source: str = "configuration") -> tuple[Extracted, EffectiveConfig]:
    """Find the configuration in `text` and load it; messages say where in the file it stands.

    Raises:
        ConfigError: see `extract_config` and `load_config`.
    """
    extracted = extract_config(text, source)
    where = f"{source} ({extracted.form}: {extracted.path})" if extracted.path else source
    return extracted, load_config(extracted.text, where, first_line=extracted.first_line)
