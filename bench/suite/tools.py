"""The two C programs: the model servers and the load generator."""

import shutil
import subprocess
from pathlib import Path

__all__ = ["ToolError", "build"]

SOURCES = Path(__file__).resolve().parents[1] / "tools"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")


class ToolError(Exception):
    """Something that is needed is not there; the text says what to do."""


def build(folder: Path, sources: Path = SOURCES) -> dict[str, Path]:
    """Compile `mock` and `load` into a folder; the paths by name."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ToolError("no C compiler: install one (Debian: apt-get install gcc libc6-dev)")
    folder.mkdir(parents=True, exist_ok=True)
    built = {}
    for name in ("mock", "load"):
        target = folder / name
        parts = [str(sources / f"{name}.c"), str(sources / "common.c")]
        done = subprocess.run(
            [compiler, *FLAGS, "-o", str(target), *parts, "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ToolError(f"{name}.c does not compile:\n{done.stderr}")
        built[name] = target
    return built
