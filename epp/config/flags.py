"""Command-line flags of the settings."""

import argparse
from typing import Final

from epp.config.leaf import Leaf, LeafKind
from epp.config.settings import Settings, leaves, sections
from epp.config.values import show_default

__all__ = ["SETTINGS_FLAG", "add_settings_flags"]

SETTINGS_FLAG: Final = "--settings"
_METAVARS: Final = {
    LeafKind.TEXT: "TEXT",
    LeafKind.INTEGER: "N",
    LeafKind.SWITCH: "true|false",
    LeafKind.DURATION: "DURATION",
    LeafKind.SIZE: "SIZE",
    LeafKind.CREDENTIAL: "KEY",
    LeafKind.ENDPOINTS: "URL[,label=value]",
    LeafKind.DNS_NAMES: "URL[,label=value]",
    LeafKind.OBJECTIVES: "NAME=PRIORITY",
    LeafKind.MODEL_REWRITES: "MODEL=TARGET",
    LeafKind.CLIENT_KEYS: "[NAME=]KEY",
    LeafKind.NETWORKS: "NETWORK",
    LeafKind.ORIGINS: "ORIGIN",
    LeafKind.PATH_RULES: "allow|deny PATTERN",
}


def add_settings_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--settings` and one flag a setting; those that are not given leave no attribute behind.

    Values stay text: `load_settings` reads them, so that all faults come in one message.
    """
    holders: dict[str, type] = {"": Settings, **sections()}
    groups = {branch: parser.add_argument_group(_title(holder)) for branch, holder in holders.items()}
    groups[""].add_argument(
        SETTINGS_FLAG, default=argparse.SUPPRESS, metavar="FILE", help="YAML file with any of these settings."
    )
    for leaf in leaves():
        _add(groups[leaf.branch], leaf)


def _title(holder: type) -> str:
    return (holder.__doc__ or "").partition("\n")[0].rstrip(".")


def _add(group: argparse._ArgumentGroup, leaf: Leaf) -> None:
    names = [leaf.flag, leaf.rules.alias] if leaf.rules.alias else [leaf.flag]
    help_text = f"{leaf.rules.doc} Default: {show_default(leaf)}.".replace("%", "%%")
    metavar = f"{{{','.join(leaf.rules.choices)}}}" if leaf.rules.choices else _METAVARS[leaf.kind]
    if leaf.kind.repeatable:
        group.add_argument(
            *names,
            dest=leaf.path,
            action="append",
            default=argparse.SUPPRESS,
            metavar=metavar,
            help=help_text,
        )
    elif leaf.kind is LeafKind.SWITCH:
        group.add_argument(
            *names,
            dest=leaf.path,
            nargs="?",
            const="true",
            default=argparse.SUPPRESS,
            metavar=metavar,
            help=help_text,
        )
    else:
        group.add_argument(*names, dest=leaf.path, default=argparse.SUPPRESS, metavar=metavar, help=help_text)
