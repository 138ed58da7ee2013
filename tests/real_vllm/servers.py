"""Real vLLM servers, each in a process group of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx

from tests.real_vllm import pages

__all__ = ["MachineError", "VllmServer", "machine_fault", "start_all"]

_HERE = Path(__file__).parent
_START_LIMIT_S = 300.0
_REPLAY_OFFSET = 1000  # see up.sh

_FAULT_SIGNALS = {
    signal.SIGKILL: "was killed, which is how Linux ends processes when memory runs out",
    signal.SIGILL: "used an instruction that this processor does not have",
    signal.SIGBUS: "found no room in shared memory",
}
_FAULT_TEXTS = (
    "Cannot allocate memory",
    "MemoryError",
    "No space left on device",
    "can't start new thread",
    "cannot open shared object file",
    "Failed to infer device type",
)


class MachineError(Exception):
    """vLLM cannot run on this machine."""


def machine_fault(status: int, log: str) -> str | None:
    """Why the machine is to blame for a server that ended with exit `status`; None: it is not."""
    for number, did in _FAULT_SIGNALS.items():
        if status == -number:
            return f"vLLM {did}"
    # Warnings name errors that may come, in every log.
    lines = [line for line in log.splitlines() if " WARNING " not in line]
    faults = [text for text in _FAULT_TEXTS if any(text in line for line in lines)]
    return f"vLLM cannot start here: {faults[0]}" if faults else None


class VllmServer:
    """One server; may be started again after it ended. `address` stays the same."""

    def __init__(self, venv: Path, model: Path, log: Path) -> None:
        self._venv = venv
        self._model = model
        self._log = log
        self._port = _free_port()
        self.address = f"127.0.0.1:{self._port}"
        self.url = f"http://{self.address}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """The process is there, healthy or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Begin to start; `wait_until_healthy` tells when it serves."""
        command = ["bash", str(_HERE / "up.sh"), str(self._venv), str(self._model)]
        numbers = [str(self._port), str(_free_port(also=_REPLAY_OFFSET))]
        self._process = subprocess.Popen([*command, *numbers, str(self._log)], start_new_session=True)

    def wait_until_healthy(self) -> None:
        """Return when `/health` answers 200.

        Raises:
            MachineError: the server ended, and the machine is to blame.
            AssertionError: it ended for another reason, or is still not healthy after five minutes.
        """
        deadline = time.monotonic() + _START_LIMIT_S
        while not self._healthy():
            if not self.running:
                self._explain()
            assert time.monotonic() < deadline, f"not healthy in {_START_LIMIT_S:g} s:\n{self._tail()}"
            time.sleep(0.25)

    def warm_up(self) -> None:
        """Answer a request: the first of a fresh server takes seconds, and must not be short.

        On processors with AMX this build of vLLM dies of an illegal instruction in its attention kernel when
        its first prompt has only a few tokens; a long one makes oneDNN ask the kernel for the AMX state first.
        """
        body = {"model": "tiny", "prompt": "word " * 200, "max_tokens": 16}
        httpx.post(f"{self.url}/v1/completions", json=body, timeout=60).raise_for_status()

    def _started(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the server was not started"
        return self._process

    def _healthy(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def _explain(self) -> None:
        status = self._started().returncode
        reason = machine_fault(status, self._log.read_text(errors="replace"))
        if reason is not None:
            raise MachineError(reason)
        raise AssertionError(f"vLLM ended with exit status {status}:\n{self._tail()}")

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])

    def kill(self) -> None:
        """End every process of the server at once, as an outage would; without effect the second time."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def kill_engine(self) -> None:
        """End the engine's process only: the HTTP server outlives it for a moment."""
        os.kill(self._engine(), signal.SIGKILL)

    def freeze(self) -> None:
        """Stop every process of the server, without ending one."""
        os.killpg(self._started().pid, signal.SIGSTOP)

    def freeze_engine(self) -> None:
        """Stop the engine's process only: the HTTP server takes requests that nobody works on."""
        os.kill(self._engine(), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let every process go on, if there are any."""
        if self.running:
            os.killpg(self._started().pid, signal.SIGCONT)

    def _engine(self) -> int:
        listing = subprocess.run(
            ["pgrep", "-g", str(self._started().pid), "-f", "EngineCore"],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(listing.stdout.split()[0])

    def empty_tiers(self) -> None:
        """Forget every cached block, device's and host's."""
        url = f"{self.url}/reset_prefix_cache"
        httpx.post(url, params={"reset_external": "true"}, timeout=30).raise_for_status()

    def cached_tokens(self, source: str) -> float:
        """Prompt tokens that the engine says it took from a tier: `device` or `host`."""
        return pages.read(self.url, "vllm:prompt_tokens_cached_by_source_total", source=source)

    def load(self) -> int:
        """Requests that the HTTP server has, also while the engine is stopped."""
        return int(httpx.get(f"{self.url}/load", timeout=30).raise_for_status().json()["server_load"])

    def busy(self) -> float:
        """Requests that the engine has, running or waiting."""
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
        return sum(pages.read(self.url, name) for name in names)


def start_all(servers: list[VllmServer]) -> None:
    """Start those that do not run, all at once, and wait for them."""
    down = [server for server in servers if not server.running]
    for server in down:
        server.start()
    for server in down:
        server.wait_until_healthy()
        server.warm_up()


def _free_port(also: int = 0) -> int:
    """A port that is free, as is the one `also` above it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + also if also else 0))
            except (OSError, OverflowError):
                continue
            return port
