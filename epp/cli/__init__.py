"""The `epp` command: one file a subcommand, imported only when it runs.

A subcommand's module has `add_parser(subparsers)`, which adds a parser of the command's name, and
`run(arguments) -> int`, the exit status. `--help` of the whole imports none of them.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

from epp import __version__
from epp.errors import ConfigError

__all__ = ["COMMANDS", "main"]

COMMANDS: Final = {
    "serve": "route requests to model servers (the default when only flags are given)",
    "gateway": "start Envoy in front of model servers, and decide for it",
    "check": "validate a configuration and print what it means",
    "doctor": "check endpoints against the configuration: what would blind a scorer",
    "explain": "show how one request would be scheduled",
    "sim-server": "run a simulated vLLM server",
    "simulate": "run a modelled fleet behind the router, in virtual time",
    "capacity": "how much KV cache fits where, and what to set",
    "advise": "native offload, LMCache or none: from a simulation of your fleet and traffic",
    "demo": "run epp in front of four simulated servers",
    "tour": "show, step by step, what cache-aware routing gains",
}

_CONFIG_ERROR: Final = 2
_INTERRUPTED: Final = 130  # 128 + SIGINT
_BROKEN_PIPE: Final = 141  # 128 + SIGPIPE

_USAGE: Final = """\
usage: epp [COMMAND] [FLAGS]

epp routes requests for large language models to the server whose cache already holds the longest prefix of
the prompt, weighed against load.

commands:
{commands}

flags:
  -h, --help     this text; `epp COMMAND --help` shows the flags of a command
  --version      print the version

examples:
  epp demo
      four simulated servers and a router on port 8080: the quickest look
  epp --endpoint http://10.0.0.1:8000 --endpoint http://10.0.0.2:8000
      route to two vLLM servers with the built-in configuration
  epp serve --config plugins.yaml --endpoint http://10.0.0.1:8000,zone=a --port 8080
      the same with a configuration of your own, and a label
  epp check plugins.yaml
      what the file means, and where every value comes from; also for Helm values and ConfigMaps
  epp doctor --config plugins.yaml --endpoint http://10.0.0.1:8000
      whether the server shows what the configuration needs, and what to change
  EPP_ENDPOINT="http://10.0.0.1:8000 http://10.0.0.2:8000" EPP_LOG_LEVEL=debug epp
      every flag is also an environment variable
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (default: the process's arguments) names; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch(words)
        sys.stdout.flush()
    except ConfigError as error:
        print(f"epp: {error}", file=sys.stderr)
        return _CONFIG_ERROR
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not try to flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return status


def _dispatch(words: list[str]) -> int:
    first = words[0] if words else ""
    if first in ("-h", "--help", "help"):
        print(_usage(), end="")
        return 0
    if first == "--version":
        print(f"epp {__version__}")
        return 0
    if first and not first.startswith("-"):
        return _run(first, words[1:])
    return _run("serve", words, bare=True)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    return _USAGE.format(commands="\n".join(f"  {name:{width}}  {doc}" for name, doc in COMMANDS.items()))


def _run(command: str, words: Sequence[str], *, bare: bool = False) -> int:
    if command not in COMMANDS:
        print(f"epp: unknown command {command!r}; commands: {', '.join(COMMANDS)}", file=sys.stderr)
        return _CONFIG_ERROR
    module = importlib.import_module(f"epp.cli.{command.replace('-', '_')}")
    picker = False
    if command == "serve":
        words, picker = _without_go_flags(words, bare=bare)
    parser = argparse.ArgumentParser(prog="epp", allow_abbrev=False)
    module.add_parser(parser.add_subparsers(dest="command", required=True))
    arguments = parser.parse_args([command, *words])
    arguments.picker = picker
    status: int = module.run(arguments)
    return status


def _without_go_flags(words: Sequence[str], *, bare: bool) -> tuple[Sequence[str], bool]:
    """The words of our own parser, and whether this is a picker's command line."""
    from epp.cli.go_flags import translate  # noqa: PLC0415  `--help` of the whole needs no flag

    translated = translate(words, bare=bare)
    for notice in translated.notices:
        print(f"epp: {notice}", file=sys.stderr)
    return translated.words, translated.picker
