"""`epp serve`: the router."""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace

from epp.app.endpoint_sources import has_sources
from epp.app.files import read_configurations, read_text
from epp.app.server import Started, serve
from epp.cli.go_flags import PICKER_PORTS, help_text
from epp.config import EffectiveConfig, Settings, add_settings_flags, load_settings
from epp.errors import ConfigError, ConfigProblem

__all__ = ["add_parser", "no_endpoint", "run", "serve_until_signal"]

EPILOG = """\
examples:
  epp serve --endpoint http://10.0.0.1:8000 --endpoint http://10.0.0.2:8000
      the built-in configuration, on port 8080
  epp serve --config config/tiered-prefix-cpu.yaml --endpoint http://10.0.0.1:8000 --port 9000
  epp serve --discovery-file endpoints.yaml --discovery-dns http://vllm.internal:8000
      endpoints that come and go
  epp serve --kubernetes-pool llm-d-infpool --kubernetes-namespace inference
      the members of an InferencePool
  epp serve --endpoint http://10.0.0.1:8000 --grpc-port 9002 --grpc-health-port 9003
      beside any gateway too: Envoy's external processing, as the Gateway API Inference Extension has it
  EPP_ENDPOINT="http://10.0.0.1:8000 http://10.0.0.2:8000" epp serve --settings settings.yaml
      flags over environment over file over defaults; `epp check --settings` shows what is in effect

exit codes: 0 drained after SIGTERM or SIGINT; 1 the port is taken; 2 the configuration is wrong

"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command with one flag a setting."""
    parser = subparsers.add_parser(
        "serve",
        allow_abbrev=False,
        help="route requests to vLLM servers (the default command)",
        description="Route OpenAI requests to the vLLM server that holds most of their prefix, in its GPU or "
        "its CPU tier, and is least busy.",
        epilog=EPILOG + help_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_settings_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    picker = getattr(arguments, "picker", False)
    defaults = PICKER_PORTS if picker else {}
    settings, sources, notices = load_settings(arguments, os.environ, read_text, defaults)
    for notice in notices:
        print(f"epp: {notice}", file=sys.stderr)
    configurations = read_configurations(settings)
    found = has_sources(settings, configurations.live)
    if not found and picker and sources["poolName"] != "default":
        # As the Go picker does: the pool that has been named says which pods there are.
        kubernetes = replace(settings.kubernetes, pool=settings.pool_name)
        settings, found = replace(settings, kubernetes=kubernetes), True
    if not found:
        raise ConfigError([no_endpoint()], "settings")
    return serve_until_signal(settings, configurations.live, shadow=configurations.shadow)


def no_endpoint() -> ConfigProblem:
    """What to say where nothing tells of endpoints."""
    remedy = (
        "give --endpoint http://host:port once for each vLLM server, or --discovery-file, --discovery-dns, "
        "--kubernetes-pool or --kubernetes-selector; `epp demo` needs none"
    )
    return ConfigProblem("endpoint", "no endpoint is configured", remedy)


def serve_until_signal(
    settings: Settings,
    config: EffectiveConfig,
    on_started: Callable[[Started], None] | None = None,
    *,
    shadow: EffectiveConfig | None = None,
) -> int:
    """Serve; `on_started` is called once when the listeners are open."""
    try:
        serve(settings, config, on_started, shadow=shadow)
    except OSError as error:
        address = error.filename or f"{settings.host}:{settings.port}"
        print(f"epp: cannot listen on {address}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
