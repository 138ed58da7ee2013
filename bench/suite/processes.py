"""Child processes: pinned, urgent, in a session of their own, and gone whatever happens."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .tools import ToolError

__all__ = ["Cores", "choose_cores", "free_ports", "hurry", "run_tool", "running", "stop_on_signals"]

ROOT = Path(__file__).resolve().parents[2]
PORTS_FROM, PORTS_TO = 18100, 32000  # below the ephemeral range: outgoing connections never take them
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
URGENT = -20
STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class Cores:
    """One core for the proxy, another for servers and load."""

    proxy: int
    tools: int


def choose_cores() -> Cores:
    """The last and the first core that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise ToolError("two cores are needed: one for the proxy, one for the model servers and the load")
    return Cores(proxy=allowed[-1], tools=allowed[0])


def free_ports(count: int, start: int = PORTS_FROM) -> range:
    """So many free ports in a row."""
    first = start
    while first + count <= PORTS_TO:
        taken = next((port for port in range(first, first + count) if not _is_free(port)), None)
        if taken is None:
            return range(first, first + count)
        first = taken + 1
    raise ToolError(f"no {count} free ports in a row between {start} and {PORTS_TO}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _prepare(core: int) -> None:
    """In the child, before it becomes the program."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    os.sched_setaffinity(0, {core})
    hurry()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def environment() -> dict[str, str]:
    """This process's, less what would configure epp; epp is imported from this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EPP_")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def hurry() -> None:
    """Be served before other processes, where that is allowed.

    A session is a scheduling group of its own where the kernel groups automatically; a process's own priority
    then counts within its session only.
    """
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, URGENT)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(URGENT))


@contextlib.contextmanager
def running(command: Sequence[str], core: int, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of its own session on one core; the session is ended on leaving."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: _prepare(core),  # noqa: PLW1509  # there are no threads here
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    _signal(process, signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also when another signal comes meanwhile
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def run_tool(command: Sequence[str], core: int, timeout_s: float) -> str:
    """Run a program to its end on one core; its standard output."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
        start_new_session=True,
        preexec_fn=lambda: _prepare(core),
    )
    if done.returncode:
        raise ToolError(
            f"{Path(command[0]).name} failed with {done.returncode}: {done.stderr.strip()[-2000:]}"
        )
    return done.stdout


def stop_on_signals() -> None:
    """SIGTERM and SIGHUP end the suite as Ctrl-C does: by an exception that lets children be ended."""

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def wait_until(ready, process: "subprocess.Popen[bytes]", log: Path, patience_s: float) -> float:
    """Seconds until `ready()` is true, asked every few milliseconds."""
    began = time.monotonic()
    while time.monotonic() < began + patience_s:
        if ready():
            return time.monotonic() - began
        if process.poll() is not None:
            raise ToolError(f"it ended with {process.returncode}: {_tail(log)}")
        time.sleep(0.005)
    raise ToolError(f"no answer within {patience_s:.0f} s: {_tail(log)}")


def _tail(log: Path, size: int = 600) -> str:
    return log.read_text(errors="replace").strip()[-size:] or "it printed nothing"
