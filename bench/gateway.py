"""CPU time of a gateway's picker and of Envoy beside it, for each request and each chunk of an answer.

    python bench/gateway.py [--seconds 4] [--rounds 3] [--only ext_proc-buffered …] [--json out.json]

Every row has Envoy (one thread) and epp on one core, the model servers and the load on another. Requests come
over 32 connections as fast as answers come, once with bodies of 1 KB and once of 120 KB; chunks come in 100
streams, one each 10 ms. Figures are µs of user and system time of the whole process, everything included
(scraping too); medians of the rounds. "plain" is the same Envoy without a picker.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from suite.bodies import Body, bodies_file  # noqa: E402  the path stands above
from suite.proc import TICKS, parse_stat  # noqa: E402
from suite.processes import Cores, choose_cores, free_ports, run_tool, running, wait_until  # noqa: E402
from suite.tools import build  # noqa: E402

from tests.envoy.bootstrap import Setup, bootstrap  # noqa: E402
from tests.envoy.kit import envoy_binary  # noqa: E402

ENDPOINTS = 4
CONNECTIONS = 32
STREAMS, CHUNKS, INTERVAL_US = 100, 100, 10_000
PATIENCE_S = 60.0
PLAIN = "plain"
STANDALONE = "ext_authz"


@dataclass(frozen=True)
class Mode:
    """One row: how Envoy asks, and what it shows of answers."""

    name: str
    request_body: str = "BUFFERED"
    response_body: str = "NONE"
    response: str = "headers"


MODES = (
    Mode(PLAIN),
    Mode("ext_proc-buffered"),
    Mode("ext_proc-duplex", request_body="FULL_DUPLEX_STREAMED"),
    Mode("ext_proc-full-streamed", response_body="STREAMED", response="full"),
    Mode("ext_proc-full-duplex", "FULL_DUPLEX_STREAMED", "FULL_DUPLEX_STREAMED", "full"),
    Mode(STANDALONE),
)


@dataclass(frozen=True)
class Place:
    """What a row runs on."""

    tools: dict[str, Path]
    folder: Path
    cores: Cores
    servers: range
    port: int
    picker: int
    admin: int

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(f"127.0.0.1:{port}" for port in self.servers)


@dataclass(frozen=True)
class Stack:
    """What is running; None where the row has none."""

    envoy: int
    epp: int | None

    def cpu_s(self) -> dict[str, float]:
        pids = {"envoy": self.envoy, "picker": self.epp}
        return {name: _cpu_s(pid) for name, pid in pids.items() if pid is not None}


def _cpu_s(pid: int) -> float:
    return parse_stat(Path(f"/proc/{pid}/stat").read_text()).ticks / TICKS


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _endpoints(place: Place) -> list[str]:
    return [word for address in place.addresses for word in ("--endpoint", f"http://{address}")]


@contextlib.contextmanager
def stack_of(mode: Mode, place: Place) -> Iterator[Stack]:
    """The row's processes, ready."""
    epp = [sys.executable, "-m", "epp"]
    own = [
        "--host",
        "127.0.0.1",
        "--log-level",
        "warning",
        "--access-log-file",
        "/dev/null",
        *_endpoints(place),
    ]
    with contextlib.ExitStack() as on:
        log = place.folder / "epp.log"
        if mode.name == STANDALONE:
            ports = ["--port", str(place.port), "--admin-port", str(place.admin), "--concurrency", "1"]
            process = on.enter_context(running([*epp, "gateway", *own, *ports], place.cores.proxy, log))
            wait_until(lambda: _answers(f"http://127.0.0.1:{place.port}/readyz"), process, log, PATIENCE_S)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            _hurry(int(children[0]))
            yield Stack(int(children[0]), process.pid)
            return
        picker = None
        if mode.name != PLAIN:
            ports = ["--port", str(place.admin), "--grpc-port", str(place.picker), "--secure-serving=false"]
            command = [*epp, "serve", *own, *ports, "--grpc-response", mode.response]
            process = on.enter_context(running(command, place.cores.proxy, log))
            wait_until(lambda: _answers(f"http://127.0.0.1:{place.admin}/readyz"), process, log, PATIENCE_S)
            picker = process.pid
        envoy = on.enter_context(_envoy(mode, place))
        yield Stack(envoy, picker)


def _hurry(pid: int) -> None:
    """Let a grandchild in a session of its own run as urgently as the children do."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("-20")


@contextlib.contextmanager
def _envoy(mode: Mode, place: Place) -> Iterator[int]:
    setup = Setup(
        picker_port=place.picker,
        endpoints=place.addresses,
        request_body=mode.request_body,
        response_body=mode.response_body,
        routing="override",
    )
    config = bootstrap(setup)
    listener = config["static_resources"]["listeners"][0]
    listener["address"]["socket_address"]["port_value"] = place.port
    if mode.name == PLAIN:
        filters = listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
        filters[:] = [found for found in filters if found["name"] == "router"]
    file, log = place.folder / "envoy.json", place.folder / "envoy.log"
    file.write_text(json.dumps(config))
    command = [
        envoy_binary(),
        "-c",
        str(file),
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "-l",
        "warning",
    ]
    with running(command, place.cores.proxy, log) as process:
        wait_until(lambda: _answers(f"http://127.0.0.1:{place.port}/v1/models"), process, log, PATIENCE_S)
        yield process.pid


def measure(mode: Mode, place: Place, seconds: float) -> dict[str, float]:
    """One round of a row: µs by what and whom."""
    found: dict[str, float] = {}
    with stack_of(mode, place) as stack:
        _load(place, 1_000, ["--seconds", "0.5"])
        for size in (1_000, 120_000):
            seen, cpu_s = _watched(stack, place, size, ["--seconds", str(seconds)])
            for name, used_s in cpu_s.items():
                found[f"{name}_{size // 1000}kb_us"] = used_s / seen["requests"] * 1e6
            found[f"requests_{size // 1000}kb_per_s"] = seen["requests"] / seen["seconds"]
        _control(place, CHUNKS, INTERVAL_US)
        streams = ["--connections", str(STREAMS), "--requests", str(STREAMS * 3), "--chunks", str(CHUNKS)]
        seen, cpu_s = _watched(stack, place, 1_000, streams)
        for name, used_s in cpu_s.items():
            found[f"{name}_chunk_us"] = used_s / seen["chunks"] * 1e6
        _control(place, 0, 0)
    return found


def _watched(stack: Stack, place: Place, size: int, how: list[str]) -> tuple[dict, dict[str, float]]:
    before = stack.cpu_s()
    seen = _load(place, size, how)
    after = stack.cpu_s()
    if seen["errors"]:
        raise SystemExit(f"{seen['errors']} errors: {seen['first_error']}")
    return seen, {name: after[name] - before[name] for name in after}


def _load(place: Place, size: int, how: list[str]) -> dict:
    bodies = place.folder / f"bodies-{size}.jsonl"
    if not bodies.exists():
        bodies.write_bytes(bodies_file(Body(size)))
    command = [str(place.tools["load"]), "--port", str(place.port), "--bodies", str(bodies)]
    given = how if "--connections" in how else [*how, "--connections", str(CONNECTIONS)]
    return json.loads(run_tool([*command, *given], place.cores.tools, 120.0))


def _control(place: Place, chunks: int, interval_us: int) -> None:
    query = f"chunks={chunks}&interval_us={interval_us}"
    urllib.request.urlopen(f"http://127.0.0.1:{place.servers[0]}/control?{query}", timeout=5).close()


def run(only: list[str], seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """Medians by row; the rounds go over all rows in turn, so that a busy minute hurts each alike."""
    found: dict[str, list[dict[str, float]]] = {m.name: [] for m in MODES if not only or m.name in only}
    with tempfile.TemporaryDirectory(prefix="epp-bench-") as name, contextlib.ExitStack() as on:
        folder, cores = Path(name), choose_cores()
        ports = free_ports(ENDPOINTS + 3)
        tools = build(folder)
        place = Place(tools, folder, cores, ports[:ENDPOINTS], *ports[ENDPOINTS:])
        mock = [str(tools["mock"]), "--port", str(ports[0]), "--endpoints", str(ENDPOINTS)]
        log = folder / "mock.log"
        process = on.enter_context(running(mock, cores.tools, log))
        wait_until(lambda: _answers(f"http://127.0.0.1:{ports[0]}/v1/models"), process, log, PATIENCE_S)
        for _ in range(rounds):
            for mode in MODES:
                if mode.name in found:
                    found[mode.name].append(measure(mode, place, seconds))
                    time.sleep(0.2)
    return {name: _medians(taken) for name, taken in found.items()}


def _medians(taken: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(one[key] for one in taken), 2) for key in taken[0]}


def show(rows: dict[str, dict[str, float]]) -> None:
    """A table on standard output."""
    columns = ("picker_1kb_us", "envoy_1kb_us", "requests_1kb_per_s", "picker_120kb_us", "envoy_120kb_us",
               "picker_chunk_us", "envoy_chunk_us")  # fmt: skip
    print(f"{'':24}" + "".join(f"{column:>20}" for column in columns))
    for name, row in rows.items():
        print(f"{name:24}" + "".join(f"{row[c]:20.1f}" if c in row else f"{'-':>20}" for c in columns))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], choices=[mode.name for mode in MODES])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = run(arguments.only, arguments.seconds, arguments.rounds)
    show(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
