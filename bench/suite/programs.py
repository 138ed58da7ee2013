"""What is compared: nginx from Debian's packages, others' routers from PyPI, this machine's CPython versions.

Each router has a virtual environment of its own under bench/.peers/, which git ignores; so has epp under a
newer CPython than the one that runs the suite.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from .tools import ToolError

__all__ = ["PEERS", "ensure_nginx", "ensure_peer", "newest_python", "python_version"]

ROOT = Path(__file__).resolve().parents[2]
PEERS_FOLDER = ROOT / "bench" / ".peers"
PEERS = {"vllm-router": "0.1.17", "sglang-router": "0.3.2", "smg": "1.13.0"}
PEER_PYTHONS = ((3, 12), (3, 11), (3, 13))  # their wheels come for these, in order of preference
INSTALL_S = 600
QUIET_PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
FACTS = """import json, sys
print(json.dumps([list(sys.version_info[:3]), getattr(sys, "_is_gil_enabled", lambda: True)()]))"""


def ensure_nginx(say: Callable[[str], None]) -> str:
    """The path of nginx; installs nginx-light where that is possible."""
    found = _nginx()
    if found:
        return found
    remedy = "nginx is needed as the yardstick: apt-get install nginx-light"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ToolError(remedy)
    say("installing nginx-light")
    for command in (("update",), ("install", "-y", "--no-install-recommends", "nginx-light")):
        done = _run(["apt-get", "-q", *command], {"DEBIAN_FRONTEND": "noninteractive"})
        if done.returncode:
            raise ToolError(f"{remedy}\napt-get {command[0]} said:\n{done.stderr.strip()}")
    found = _nginx()
    if not found:
        raise ToolError(remedy)
    return found


def _nginx() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def ensure_peer(name: str, say: Callable[[str], None]) -> Path:
    """The folder of a router's commands; installs its pinned version. Raises ToolError with the reason."""
    folder = PEERS_FOLDER / name
    wanted = f"{name}=={PEERS[name]}"
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        say(f"installing {wanted}")
        _make_venv(folder, _peer_python())
        _pip(folder, [wanted])
        stamp.write_text(wanted)
    return folder / "bin"


def _peer_python() -> str:
    found = {python_version(path)[:2]: path for path in pythons()}
    for version in PEER_PYTHONS:
        if version in found:
            return found[version]
    return sys.executable


def _make_venv(folder: Path, python: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    done = _run([python, "-m", "venv", str(folder)])
    if done.returncode:
        raise ToolError(f"no virtual environment in {folder.name}: {_last_line(done.stderr)}")


def _pip(folder: Path, arguments: list[str]) -> None:
    done = _run([str(folder / "bin" / "python"), *QUIET_PIP, *arguments])
    if done.returncode:
        raise ToolError(f"pip install {' '.join(arguments)}: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def _run(command: list[str], extra: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **(extra or {})}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=INSTALL_S, env=environment, cwd=ROOT
    )


def newest_python(say: Callable[[str], None], oldest: tuple[int, int] = (3, 12)) -> str | None:
    """An interpreter with epp's dependencies of the newest CPython from `oldest` on; None if there is none.

    The interpreter that runs the suite is taken if nothing is newer.
    """
    own = python_version(sys.executable)
    candidates = sorted(((python_version(path), path) for path in pythons()), reverse=True)
    for version, path in candidates:
        if version[:2] < oldest or version[:2] <= own[:2]:
            break
        try:
            return _epp_python(path, version, say)
        except (ToolError, subprocess.TimeoutExpired) as reason:
            say(f"CPython {'.'.join(map(str, version))} is left out: {reason}")
    return sys.executable if own[:2] >= oldest else None


def _epp_python(path: str, version: tuple[int, ...], say: Callable[[str], None]) -> str:
    folder = PEERS_FOLDER / f"epp-{version[0]}.{version[1]}"
    stamp, wanted = folder / "installed.txt", (ROOT / "constraints.txt").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        say(f"installing epp's dependencies for CPython {'.'.join(map(str, version))}")
        _make_venv(folder, path)
        _pip(folder, ["--only-binary", ":all:", "-c", "constraints.txt", *_dependencies()])
        stamp.write_text(wanted)
    return str(folder / "bin" / "python")


def _dependencies() -> list[str]:
    import tomllib

    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])


def pythons() -> list[str]:
    """Interpreters of this machine: on the PATH, and those that pyenv keeps."""
    return sorted({str(path) for path in _pythons() if python_version(str(path))})


def _pythons() -> Iterator[Path]:
    pattern = re.compile(r"python3\.\d+$")
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [folder for folder in folders if folder.name != "shims"]
    folders += sorted(kept.glob("*/bin")) if kept.is_dir() else []
    for folder in folders:
        if folder.is_dir():
            yield from (path for path in folder.iterdir() if pattern.fullmatch(path.name))


_versions: dict[str, tuple[int, ...]] = {}


def python_version(path: str) -> tuple[int, ...]:
    """Major, minor and patch of an interpreter; empty if it does not run or has no global lock."""
    if path not in _versions:
        done = subprocess.run([path, "-c", FACTS], capture_output=True, text=True, check=False)
        version, locked = json.loads(done.stdout) if done.returncode == 0 else ([], True)
        _versions[path] = tuple(version) if locked else ()
    return _versions[path]
