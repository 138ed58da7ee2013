"""`epp check FILE`: is the configuration valid, and what does it mean."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from epp.config.effective import EffectiveConfig
from epp.config.extract import Extracted, load_any_config
from epp.config.report import config_as_dict, config_as_text, settings_as_dict, settings_as_text
from epp.config.settings import Settings
from epp.config.settings_load import load_settings
from epp.errors import ConfigError, ConfigProblem

__all__ = ["add_parser", "run"]

_STANDARD_INPUT: Final = "-"
_INVALID: Final = 2


@dataclass(slots=True)
class _Findings:
    """What was found out; without problems everything that was asked for is there."""

    file: str
    extracted: Extracted | None = None
    config: EffectiveConfig | None = None
    settings: Settings | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    problems: list[tuple[str, ConfigProblem]] = field(default_factory=list)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "check",
        allow_abbrev=False,
        description=(
            "Validates an EndpointPickerConfig (a plain file, Helm values or a ConfigMap) and prints every "
            "effective value with where it comes from, and which view of the prefix index is which tier by "
            "what rule. Exit status 0: valid, 2: not."
        ),
    )
    parser.add_argument("file", metavar="FILE", help="the configuration; - reads standard input")
    parser.add_argument(
        "--settings",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="check this settings file too, together with the EPP_* variables",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(arguments: argparse.Namespace) -> int:
    """Check the files; the result goes to standard output, in text form problems to standard error."""
    findings = _Findings(arguments.file)
    _collect(findings, lambda: _check_config(findings))
    if "settings" in arguments:
        _collect(findings, lambda: _check_settings(findings, arguments))
    if arguments.format == "json":
        print(json.dumps(_as_dict(findings), indent=2))
    elif findings.problems:
        _print_problems(findings)
    else:
        print(_as_text(findings))
    return _INVALID if findings.problems else 0


def _collect(findings: _Findings, check: Callable[[], None]) -> None:
    """Run a check; its problems are kept, so that the next check runs too."""
    try:
        check()
    except ConfigError as error:
        findings.problems += [(error.source, problem) for problem in error.problems]


def _check_config(findings: _Findings) -> None:
    text = _read_config(findings.file)
    findings.extracted, findings.config = load_any_config(text, findings.file)


def _check_settings(findings: _Findings, arguments: argparse.Namespace) -> None:
    loaded = load_settings(arguments, os.environ, _read_file)
    findings.settings, findings.sources, findings.notices = loaded


def _read_file(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def _read_config(file: str) -> str:
    try:
        return sys.stdin.read() if file == _STANDARD_INPUT else _read_file(file)
    except OSError as error:
        raise ConfigError([ConfigProblem("document", f"cannot be read: {error.strerror}")], file) from error
    except UnicodeDecodeError as error:
        raise ConfigError([ConfigProblem("document", "cannot be read: it is not UTF-8")], file) from error


def _print_problems(findings: _Findings) -> None:
    for source, problem in findings.problems:
        print(f"{source}: {problem}", file=sys.stderr)
    count = len(findings.problems)
    print(f"epp: invalid, {count} problem{'' if count == 1 else 's'}", file=sys.stderr)


def _as_text(findings: _Findings) -> str:
    parts: list[str] = []
    if findings.extracted and findings.config:
        where = f" at {findings.extracted.path}" if findings.extracted.path else ""
        parts += [
            f"{findings.file}: valid ({findings.extracted.form}{where})",
            config_as_text(findings.config),
        ]
    if findings.settings:
        parts += ["", "settings", settings_as_text(findings.settings, findings.sources)]
    return "\n".join([*parts, *(f"note: {notice}" for notice in findings.notices)])


def _as_dict(findings: _Findings) -> dict[str, Any]:
    found: dict[str, Any] = {
        "valid": not findings.problems,
        "problems": [
            {"source": source, "path": p.path, "line": p.line, "message": p.message, "remedy": p.remedy}
            for source, p in findings.problems
        ],
    }
    if findings.extracted and findings.config:
        found["form"], found["path"] = findings.extracted.form, findings.extracted.path
        found["config"] = config_as_dict(findings.config)
    if findings.settings:
        found["settings"] = settings_as_dict(findings.settings, findings.sources)
        found["notices"] = list(findings.notices)
    return found
