"""What the figures were measured on, without names of hosts or paths."""

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

__all__ = ["describe", "nginx_version", "versions_of_libraries"]

LIBRARIES = ("uvicorn", "uvloop", "httptools", "msgspec", "xxhash", "fastapi")


def describe() -> dict[str, object]:
    """Processor, cores, memory, kernel, distribution."""
    return {
        "processor": _field(Path("/proc/cpuinfo").read_text(), "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "Linux"),
    }


def _field(text: str, name: str) -> str:
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def nginx_version(binary: str) -> str:
    done = subprocess.run([binary, "-v"], capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("/")[2]


def versions_of_libraries(names: Iterable[str] = LIBRARIES) -> dict[str, str]:
    """Of the interpreter that runs the suite; constraints.txt pins them for the others."""
    return {name: version(name) for name in names}
