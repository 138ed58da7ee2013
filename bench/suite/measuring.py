"""One session: servers and a stack are started, given their workloads, watched through /proc, and stopped."""

import contextlib
import http.client
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .bodies import Body, bodies_file
from .plan import Load, Session, Watch
from .proc import core_seconds, cpu_seconds, pss_mib
from .processes import Cores, free_ports, run_tool, running, wait_until
from .stacks import Place, Stack
from .tools import ToolError

__all__ = ["Bench", "Metrics", "Running", "index_fullness", "metrics_page"]

Metrics = dict[str, float]  # of one workload in one run
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests/fixtures/vllm/metrics-busy.txt"  # recorded from vLLM, 72 kB
GPU_BLOCKS = 31_250
PATIENCE_S = 60.0
WARM = Load("warm", Body(1_000), 32, seconds=0.5)
ASK = json.dumps({"model": "m", "messages": [{"role": "user", "content": "ready?"}], "max_tokens": 1})


def metrics_page() -> bytes:
    """The recorded page as an engine with 31,250 blocks of 16 tokens would give it, for the model `m`."""
    page = PAGE.read_text()
    for name, value in (
        ("block_size", 16),
        ("effective_attention_block_size", 16),
        ("num_gpu_blocks", GPU_BLOCKS),
        ("kv_cache_size_tokens", GPU_BLOCKS * 16),
        ("model_name", "m"),
    ):
        page = re.sub(rf'([{{,]){name}="[^"]*"', rf'\1{name}="{value}"', page)
    return page.encode()


@dataclass(frozen=True, slots=True)
class Bench:
    """What every session needs: the tools, a folder for files, the cores."""

    tools: dict[str, Path]
    folder: Path
    cores: Cores

    @contextlib.contextmanager
    def start(self, stack: Stack, session: Session) -> Iterator["Running"]:
        """Servers and stack, running; the stack has answered a request."""
        ports = free_ports(session.endpoints + 2)
        place = Place(ports[-1], ports[-2], ports[:-2], self._fresh_folder())
        with contextlib.ExitStack() as on:
            self._start_servers(on, place)
            target = place.port if stack.command else place.servers[0]
            runs = Running(self, place, target)
            if stack.command:
                self._start_stack(on, stack, place, runs)
            yield runs

    def _start_servers(self, on: contextlib.ExitStack, place: Place) -> None:
        page = self.folder / "metrics.txt"
        page.write_bytes(metrics_page())
        command = [str(self.tools["mock"]), "--port", str(place.servers[0])]
        command += ["--endpoints", str(len(place.servers)), "--metrics", str(page)]
        log = place.folder / "servers.log"
        servers = on.enter_context(running(command, self.cores.tools, log))
        wait_until(lambda: _get(place.servers[0], "/health") is not None, servers, log, 10)

    def _start_stack(self, on: contextlib.ExitStack, stack: Stack, place: Place, runs: "Running") -> None:
        log = place.folder / "stack.log"
        command = stack.command(place)
        process = on.enter_context(running(command, self.cores.proxy, log))
        runs.session = process.pid
        runs.ready_s = wait_until(lambda: _answers(place.port), process, log, PATIENCE_S)

    def _fresh_folder(self) -> Path:
        number = sum(1 for _ in self.folder.glob("run-*"))
        folder = self.folder / f"run-{number:04}"
        folder.mkdir()
        return folder

    def bodies(self, body: Body) -> Path:
        """The file of a kind of body; written once."""
        path = self.folder / f"bodies-{abs(hash(body))}.jsonl"
        if not path.exists():
            path.write_bytes(bodies_file(body))
        return path


def _get(port: int, path: str) -> bytes | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read() if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("POST", "/v1/chat/completions", ASK, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        return False
    else:
        return answer.status == 200
    finally:
        connection.close()


class Running:
    """A stack that runs. `session` is None where there is none."""

    def __init__(self, bench: Bench, place: Place, target: int) -> None:
        self.bench = bench
        self.place = place
        self.target = target
        self.session: int | None = None
        self.ready_s = 0.0
        self.last_error = ""

    def memory_mib(self) -> float:
        return pss_mib(self.session) if self.session else 0.0

    def warm(self) -> None:
        """First requests, which fill pools and caches; not counted."""
        self.measure(WARM)

    def measure(self, step: Load | Watch) -> Metrics:
        """One workload's figures."""
        return self._watch(step) if isinstance(step, Watch) else self._load(step)

    def _watch(self, step: Watch) -> Metrics:
        time.sleep(step.settle_s)
        pages, before, began = self._scrapes(), self._cpu(), time.monotonic()
        time.sleep(step.seconds)
        took = time.monotonic() - began
        return {"cores": (self._cpu() - before) / took, "pages_s": (self._scrapes() - pages) / took}

    def _scrapes(self) -> int:
        return json.loads(_get(self.place.servers[0], "/stats") or b"{}").get("scrapes", 0)

    def _cpu(self) -> float:
        return cpu_seconds(self.session) if self.session else 0.0

    def _load(self, step: Load) -> Metrics:
        control = f"/control?chunks={step.chunks}&interval_us={int(step.interval_ms * 1000)}"
        if _get(self.place.servers[0], control) is None:
            raise ToolError("the model servers do not answer")
        cores = self.bench.cores
        before, busy, began = self._cpu(), core_seconds(cores.tools), time.monotonic()
        with self._beside(step.beside):
            seen = json.loads(self._run_load(step))
        self.last_error = seen["first_error"]
        took = time.monotonic() - began
        cpu, busy = self._cpu() - before, core_seconds(cores.tools) - busy
        return {**figures(seen, cpu), "use": cpu / took, "tools_use": busy / took}

    @contextlib.contextmanager
    def _beside(self, step: Load | None) -> Iterator[None]:
        if step is None:
            yield
            return
        thread = threading.Thread(target=self._run_load, args=(step, "/v1/completions"))
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def _run_load(self, step: Load, path: str = "/v1/chat/completions") -> str:
        command = [str(self.bench.tools["load"]), "--port", str(self.target), "--path", path]
        command += ["--bodies", str(self.bench.bodies(step.body)), "--connections", str(step.connections)]
        command += ["--seconds", str(step.seconds), "--chunks", str(step.chunks)]
        command += ["--requests", str(step.requests)] if step.requests else []
        command += ["--rate", str(step.rate)] if step.rate else []
        limit = step.estimate_s + PATIENCE_S
        try:
            return run_tool(command, self.bench.cores.tools, limit)
        except subprocess.TimeoutExpired:
            raise ToolError(f"the load {step.name} did not end within {limit:.0f} s") from None


def figures(seen: dict, cpu_s: float) -> Metrics:
    """What is kept of a load generator's report and the CPU seconds of the proxy. Pure."""
    found: Metrics = {
        "errors": seen["errors"],
        "requests": seen["requests"],
        "requests_s": seen["requests"] / seen["seconds"] if seen["seconds"] else 0.0,
        "cpu_us": cpu_s * 1e6 / max(seen["requests"], 1),
    }
    if seen["chunks"]:
        found["cpu_us_chunk"] = cpu_s * 1e6 / seen["chunks"]
    for name, prefix in (("latency_us", "latency"), ("ttft_us", "ttft"), ("chunk_delay_us", "chunk_delay")):
        for rank in ("p50", "p99", "p999", "max"):
            if rank in seen[name]:
                found[f"{prefix}_{rank}_us"] = seen[name][rank]
    return found


def index_fullness(port: int) -> float:
    """The share of the index's capacity that is in use, from the metrics page of epp."""
    return fullness_of((_get(port, "/metrics") or b"").decode())


def fullness_of(page: str) -> float:
    """Tokens in use by tokens of capacity, over all endpoints and views. Pure."""
    sums = {"epp_index_tokens": 0.0, "epp_index_capacity_tokens": 0.0}
    for line in page.splitlines():
        name = line.partition("{")[0]
        if name in sums:
            sums[name] += float(line.rpartition(" ")[2])
    used, capacity = sums.values()
    return used / capacity if capacity else 0.0
