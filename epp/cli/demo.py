"""`epp demo`: the router in front of simulated vLLM servers, from nothing."""

import argparse
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from epp.app.files import picker_config
from epp.app.server import Started
from epp.cli.serve import serve_until_signal
from epp.config import Settings
from epp.endpoints.spec import parse_endpoints

__all__ = ["add_parser", "run"]

_READY = "listening on "

NEXT = """
epp is ready on {url}, in front of {count} simulated vLLM servers:
  {servers}

Try next, in another terminal:
  {program} tour --url {url}
      one long prompt twice, then a full GPU tier: which tier serves what, and where requests go
  curl -si {url}/v1/chat/completions -H 'content-type: application/json' -H 'x-epp-explain: 1' \\
      -d '{{"messages": [{{"role": "user", "content": "Hello"}}], "max_tokens": 16}}'
      x-epp-endpoint names the server, x-epp-decision says why
  curl -s {url}/debug/decisions?limit=1
  curl -s {url}/metrics | grep epp_
  {program} serve --help
      the same in front of your own servers
Press Ctrl-C to stop everything.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "demo",
        allow_abbrev=False,
        help="the router in front of simulated vLLM servers",
        description="Start simulated vLLM servers (each with a GPU tier of 8,192 tokens and a CPU tier of "
        "65,536, so that both can be filled by hand) and the router in front of them. Needs the extra 'sim'.",
    )
    parser.add_argument(
        "--port",
        type=_number(0, 65535),
        default=8080,
        metavar="N",
        help="port of the router, 0 for a free one (%(default)s)",
    )
    parser.add_argument(
        "--servers", type=_number(1, 64), default=4, metavar="N", help="simulated servers (%(default)s)"
    )
    parser.add_argument("--config", metavar="FILE", help="an EndpointPickerConfig (the built-in one)")
    parser.add_argument(
        "--time-scale",
        type=_scale,
        default="1",
        metavar="S",
        help="model seconds in a real one (%(default)s)",
    )
    parser.set_defaults(run=run)


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if text.isdecimal() and low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(f"must be a number from {low} to {high}, not {text!r}")

    return read


def _scale(text: str) -> str:
    """Read here too, so that it is not told by a server that does not start."""
    try:
        if 0 < float(text) < math.inf:
            return text
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")


def run(arguments: argparse.Namespace) -> int:
    """Start servers and router; everything ends together."""
    with ExitStack() as stack:
        servers = [stack.enter_context(_Server(arguments.time_scale)) for _ in range(arguments.servers)]
        urls = [server.url() for server in servers]
        settings = Settings(
            host="127.0.0.1", port=arguments.port, config=arguments.config, endpoint=parse_endpoints(urls)
        )

        def announce(started: Started) -> None:
            servers = "\n  ".join(urls)
            print(
                NEXT.format(url=started.url, count=len(urls), servers=servers, program=_program()), flush=True
            )

        return serve_until_signal(settings, picker_config(settings), announce)


def _program() -> str:
    """How this command is called from the shell that called it."""
    script = Path(sys.argv[0])
    if script.name != "epp":
        return f"{sys.executable} -m epp"
    found = shutil.which("epp")
    return "epp" if found and script.exists() and script.samefile(found) else str(script)


class _Server:
    """One simulated server in a process of its own; leaving the context ends it."""

    def __init__(self, time_scale: str) -> None:
        command = [sys.executable, "-m", "epp", "sim-server", "--host", "127.0.0.1", "--port", "0"]
        command += [
            "--gpu-blocks",
            "512",
            "--cpu-blocks",
            "4096",
            "--time-scale",
            time_scale,
            "--report-cpu-tier",
        ]
        # A session of its own: Ctrl-C reaches the router, which drains before the servers go.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and flags
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.terminate()

    def url(self) -> str:
        """Its address, once it listens.

        Raises:
            SystemExit: it did not start.
        """
        stdout = self._process.stdout
        line = stdout.readline() if stdout is not None else ""
        if not line.startswith(_READY):
            raise SystemExit("epp demo: a simulated server did not start; its message stands above")
        return line.removeprefix(_READY).strip()
