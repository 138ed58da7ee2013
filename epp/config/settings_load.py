"""Settings from flags over environment over file over defaults, with the source of every value."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from epp.config.document import Node, Scalar, SequenceNode, parse
from epp.config.environment import SETTINGS_VARIABLE, read_environment
from epp.config.kubernetes_settings import kubernetes_contradictions
from epp.config.leaf import Leaf, spelled
from epp.config.reader import Reader
from epp.config.settings import Settings, leaves, sections
from epp.config.tls_rules import tls_contradictions
from epp.config.values import credential, read_value
from epp.errors import ConfigError, ConfigProblem

__all__ = ["load_settings"]

_LISTENERS: Final = {
    "adminPort": "second listener",
    "grpc.port": "endpoint picker",
    "grpc.healthPort": "port of health checks",
}
_NO_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})
_PORTS: Final = ("port", *_LISTENERS)
_KEY_FILES: Final = {"adminKey": "adminKeyFile", "endpointKey": "endpointKeyFile"}


@dataclass(frozen=True, slots=True)
class _Given:
    """One value that one source gives for one setting."""

    leaf: Leaf
    value: Any
    source: str


def load_settings(
    arguments: argparse.Namespace,
    environ: Mapping[str, str],
    read_file: Callable[[str], str],
    defaults: Mapping[str, Any] = _NO_DEFAULTS,
) -> tuple[Settings, Mapping[str, str], tuple[str, ...]]:
    """The settings, where each came from (key path → source), and notices for the log.

    `arguments` come from a parser with `add_settings_flags`; `read_file` returns a file's text and raises
    OSError or UnicodeDecodeError. `defaults` (key path → value) go before those of `Settings`.

    Raises:
        ConfigError: with every problem found, whichever source it is in.
    """
    table = leaves()
    problems: list[ConfigProblem] = []
    environment = read_environment(environ, {leaf.variable for leaf in table} | {SETTINGS_VARIABLE})
    file = getattr(arguments, "settings", None) or environment.values.get(SETTINGS_VARIABLE)
    given = [
        *_from_file(file, read_file, table, problems),
        *_from_environment(environment.values, table, problems),
        *_from_flags(arguments, table, problems),
    ]
    values = (
        {leaf.path: leaf.default for leaf in table} | dict(defaults) | {g.leaf.path: g.value for g in given}
    )
    sources = {leaf.path: "default" for leaf in table} | {g.leaf.path: g.source for g in given}
    _read_key_files(values, sources, read_file, problems)
    if not problems:
        problems += _contradictions(values)
        problems += [*tls_contradictions(values), *kubernetes_contradictions(values)]
    if problems:
        raise ConfigError(problems, "settings")
    return _build(table, values), sources, environment.notices


def _from_flags(
    arguments: argparse.Namespace, table: list[Leaf], problems: list[ConfigProblem]
) -> list[_Given]:
    given = vars(arguments)
    texts = {leaf.flag: _as_list(given[leaf.path]) for leaf in table if leaf.path in given}
    return _from_texts({leaf.flag: leaf for leaf in table}, texts, "flag", problems)


def _from_environment(
    values: Mapping[str, str], table: list[Leaf], problems: list[ConfigProblem]
) -> list[_Given]:
    by_variable = {leaf.variable: leaf for leaf in table}
    texts = {
        name: text.split() if by_variable[name].kind.separated_by_blanks else [text]
        for name, text in values.items()
        if name in by_variable
    }
    return _from_texts(by_variable, texts, "environment", problems)


def _as_list(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def _from_texts(
    by_name: Mapping[str, Leaf], texts: Mapping[str, list[str]], kind: str, problems: list[ConfigProblem]
) -> list[_Given]:
    """Values of flags or variables, which have a name but no line."""
    given: list[_Given] = []
    for name, parts in texts.items():
        reader = Reader()
        scalars = tuple(Scalar(part, 0) for part in parts)
        node: Node = scalars[0] if len(scalars) == 1 else SequenceNode(scalars, 0)
        value = read_value(reader, by_name[name], node, name)
        problems += [ConfigProblem(p.path, p.message, p.remedy) for p in reader.problems]
        given.append(_Given(by_name[name], value, f"{kind} {name}"))
    return given


def _from_file(
    file: str | None, read_file: Callable[[str], str], table: list[Leaf], problems: list[ConfigProblem]
) -> list[_Given]:
    text = "" if file is None else _read(read_file, file, "settings", problems)
    if not text:
        return []
    parsed = parse(text)
    reader = Reader()
    reader.problems += parsed.problems
    if len(parsed.documents) > 1:
        reader.problem("document", parsed.documents[1], "is followed by another one", "keep one")
    given = _read_tree(reader, parsed.documents[0], table, f"file {file}") if parsed.documents else []
    problems += [
        ConfigProblem(f"{file}: {p.path}", p.message, p.remedy, line=p.line) for p in reader.problems
    ]
    return given


def _read_tree(reader: Reader, root: Node, table: list[Leaf], source: str) -> list[_Given]:
    by_path = {leaf.path: leaf for leaf in table}
    nodes: dict[str, Node] = {"": root}
    for branch in ("", *sections()):  # outer sections come first
        path = spelled(branch)
        inner = [key for leaf in table if leaf.branch == branch for key in [_last(leaf.path)]]
        inner += [_last(spelled(b)) for b in sections() if b.rpartition(".")[0] == branch]
        for key, node in reader.fields(nodes.pop(path, None), path, inner).items():
            nodes[f"{path}.{key}" if path else key] = node
    return [
        _Given(by_path[path], read_value(reader, by_path[path], node, path), f"{source}, line {node.line}")
        for path, node in nodes.items()
    ]


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _read(read_file: Callable[[str], str], file: str, path: str, problems: list[ConfigProblem]) -> str:
    """A file's text, "" after a fault."""
    try:
        return read_file(file)
    except OSError as error:
        problems.append(ConfigProblem(path, f"cannot read {file}: {error.strerror or error}"))
    except UnicodeDecodeError:
        problems.append(ConfigProblem(path, f"cannot read {file}: it is not UTF-8"))
    return ""


def _read_key_files(
    values: dict[str, Any],
    sources: dict[str, str],
    read_file: Callable[[str], str],
    problems: list[ConfigProblem],
) -> None:
    """Credentials that stand in files of their own, the usual form of a mounted secret."""
    for key, file_key in _KEY_FILES.items():
        file = values[file_key]
        if file is None:
            continue
        if values[key] is not None:
            remedy = f"keep one: {key} comes from {sources[key]}, {file_key} from {sources[file_key]}"
            problems.append(ConfigProblem(key, f"is given beside {file_key}", remedy))
            continue
        before = len(problems)
        text = _read(read_file, file, file_key, problems)
        if len(problems) == before:
            reader = Reader()
            values[key] = credential(reader, text.strip(), file_key)
            sources[key] = f"file {file}"
            problems += reader.problems


def _contradictions(values: Mapping[str, Any]) -> list[ConfigProblem]:
    """Rules over more than one setting."""
    problems: list[ConfigProblem] = []
    problems += _shared_ports(values)
    if values["configText"] is not None and values["config"] is not None:
        problems.append(ConfigProblem("configText", "is given beside config", "keep one of them"))
    interval, threshold = values["metrics.refreshInterval"], values["metrics.stalenessThreshold"]
    if interval and threshold and threshold < 3 * interval:
        message = f"{threshold:g}s is less than three times metrics.refreshInterval ({interval:g}s)"
        remedy = f"write at least {3 * interval:g}s: every scrape would be stale before the next comes"
        problems.append(ConfigProblem("metrics.stalenessThreshold", message, remedy))
    longest, first = values["health.maxEjectionTime"], values["health.ejectionTime"]
    if longest < first:
        message = f"{longest:g}s is less than health.ejectionTime ({first:g}s)"
        problems.append(ConfigProblem("health.maxEjectionTime", message, f"write at least {first:g}s"))
    most, least = values["discovery.dnsMaxInterval"], values["discovery.dnsMinInterval"]
    if most < least:
        message = f"{most:g}s is less than discovery.dnsMinInterval ({least:g}s)"
        problems.append(ConfigProblem("discovery.dnsMaxInterval", message, f"write at least {least:g}s"))
    if not values["metrics.path"].startswith("/"):
        message = f"must begin with /, not {values['metrics.path']!r}"
        problems.append(ConfigProblem("metrics.path", message, "write /metrics"))
    return problems


def _shared_ports(values: Mapping[str, Any]) -> list[ConfigProblem]:
    """Listeners that want the same port, and health of a picker that is not there."""
    problems: list[ConfigProblem] = []
    taken: dict[int, str] = {}
    for key in _PORTS:
        port = values[key]
        if port and port in taken:
            message = f"is {port}, the same as {taken[port]}"
            remedy = f"choose another, or 0 for no {_LISTENERS[key]}"
            problems.append(ConfigProblem(key, message, remedy))
        taken.setdefault(port, key)
    if values["grpc.healthPort"] and not values["grpc.port"]:
        message = "is given without grpc.port"
        problems.append(ConfigProblem("grpc.healthPort", message, "give grpc.port, or leave it out"))
    return problems


def _build(table: list[Leaf], values: Mapping[str, Any]) -> Settings:
    built: dict[str, dict[str, Any]] = {branch: {} for branch in ("", *sections())}
    for leaf in table:
        built[leaf.branch][leaf.attribute] = values[leaf.path]
    for branch, holder in reversed(sections().items()):  # inner sections are built first
        outer, _, attribute = branch.rpartition(".")
        built[outer][attribute] = holder(**built[branch])
    return Settings(**built[""])
