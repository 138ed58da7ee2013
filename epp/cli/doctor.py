"""`epp doctor`: what would blind a scorer, before any request is routed."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from epp.app.files import picker_config, read_text
from epp.app.guards import endpoint_tls_context
from epp.app.options import metric_names
from epp.cli.numbers import above_zero
from epp.config import Settings, load_settings
from epp.doctor import ObserveOptions, as_dict, as_text, examine, exit_status, observe_endpoints
from epp.errors import ConfigError, ConfigProblem

__all__ = ["add_parser", "run"]

_SHOWN: Final = 5  # addresses in one line of progress

EPILOG = """\
examples:
  epp doctor --endpoint http://10.0.0.1:8000 --endpoint http://10.0.0.2:8000
      against the built-in configuration
  epp doctor --config config/tiered-prefix-cpu.yaml --endpoint http://10.0.0.1:8000 --probe
      also whether usage tells cached tokens; costs one token at each endpoint
  EPP_ENDPOINT="http://10.0.0.1:8000 http://10.0.0.2:8000" epp doctor --settings settings.yaml --format json
      with the files and variables that `epp serve` gets, for a pipeline

Each endpoint is asked for /health, /v1/models, /version and its metrics page. Nothing is changed there.
Every finding has a code, which docs/doctor.md explains, what was seen, why it matters and the remedy.

exit codes: 0 nothing found, or only infos; 1 warnings; 2 the flags, the configuration or the settings are
wrong; 3 errors
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command. Flags that are settings leave no attribute behind when they are not given."""
    parser = subparsers.add_parser(
        "doctor",
        allow_abbrev=False,
        help="check endpoints against the configuration",
        description="Ask every endpoint what it is, compare it with the configuration, and say what would "
        "blind a scorer and how to fix it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    unset = argparse.SUPPRESS
    parser.add_argument(
        "--config", default=unset, metavar="FILE", help="an EndpointPickerConfig (the built-in one)"
    )
    parser.add_argument(
        "--endpoint",
        default=unset,
        action="append",
        metavar="URL[,label=value]",
        help="a server to check; repeatable",
    )
    parser.add_argument(
        "--settings", default=unset, metavar="FILE", help="settings of `epp serve`; EPP_* variables count too"
    )
    parser.add_argument(
        "--probe", action="store_true", help="send a completion of one token to each endpoint"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument(
        "--timeout", type=above_zero, default=5.0, metavar="S", help="seconds for each request (%(default)g)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; progress goes to standard error when an endpoint is slow."""
    settings, _sources, notices = load_settings(arguments, os.environ, read_text)
    for notice in notices:
        print(f"epp: {notice}", file=sys.stderr)
    if not settings.endpoint:
        remedy = "give --endpoint http://host:port once for each server"
        raise ConfigError([ConfigProblem("endpoint", "no endpoint is configured", remedy)], "settings")
    config = picker_config(settings)
    options = _options(settings, arguments)
    pool = asyncio.run(observe_endpoints(settings.endpoint, options, _tell_slow))
    findings = examine(pool, config, settings)
    if arguments.format == "json":
        print(json.dumps(as_dict(pool, findings, config.source), indent=2))
    else:
        print(as_text(pool, findings, config.source))
    return exit_status(findings)


def _options(settings: Settings, arguments: argparse.Namespace) -> ObserveOptions:
    options = ObserveOptions(
        metrics_path=settings.metrics.path,
        timeout_s=arguments.timeout,
        probe=arguments.probe,
        names=metric_names(settings),
        tls=endpoint_tls_context(settings),
        server_name=settings.upstream.tls.server_name,
    )
    return replace(options, api_key=settings.endpoint_key.value) if settings.endpoint_key else options


def _tell_slow(addresses: Sequence[str]) -> None:
    more = f" and {len(addresses) - _SHOWN} more" if len(addresses) > _SHOWN else ""
    print(f"epp doctor: waiting for {', '.join(addresses[:_SHOWN])}{more}", file=sys.stderr)
