"""CPU time and memory of a tree of processes, from /proc.

A tree is a session: every child of the suite is started in one of its own.
"""

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Stat", "core_seconds", "cpu_seconds", "parse_cores", "parse_pss_kib", "parse_stat", "pss_mib"]

TICKS = os.sysconf("SC_CLK_TCK")
BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal


@dataclass(frozen=True, slots=True)
class Stat:
    """What is needed of /proc/PID/stat. `ticks` are user and system, also of children waited for."""

    pid: int
    parent: int
    session: int
    ticks: int


def parse_stat(text: str) -> Stat:
    """One line of /proc/PID/stat; the command's name may hold blanks and parentheses."""
    pid, _, rest = text.partition(" ")
    fields = rest.rpartition(")")[2].split()
    return Stat(int(pid), int(fields[1]), int(fields[3]), sum(int(field) for field in fields[11:15]))


def parse_pss_kib(text: str) -> int:
    """The proportional set size in a page of /proc/PID/smaps_rollup, in KiB."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name == "Pss":
            return int(rest.split()[0])
    return 0


def parse_cores(text: str) -> dict[int, int]:
    """Busy ticks of each core in /proc/stat, steal included."""
    found = {}
    for line in text.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            found[int(name.removeprefix("cpu"))] = sum(int(fields[place]) for place in BUSY_FIELDS)
    return found


def session_members(session: int, root: Path = Path("/proc")) -> list[Stat]:
    """The processes of a session."""
    members = []
    for folder in root.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = parse_stat((folder / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the listing and the reading
        if stat.session == session:
            members.append(stat)
    return members


def cpu_seconds(session: int, root: Path = Path("/proc")) -> float:
    """User and system time of the session's processes and of those they waited for."""
    return sum(stat.ticks for stat in session_members(session, root)) / TICKS


def pss_mib(session: int, root: Path = Path("/proc")) -> float:
    """Proportional memory of the session: shared pages are counted in parts."""
    kib = 0
    for stat in session_members(session, root):
        try:
            kib += parse_pss_kib((root / str(stat.pid) / "smaps_rollup").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return kib / 1024


def core_seconds(core: int) -> float:
    """How long a core was busy since boot, whoever used it."""
    return parse_cores(Path("/proc/stat").read_text()).get(core, 0) / TICKS
