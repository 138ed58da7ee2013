"""Becomes another program that ends when its parent does.

`python -m epp.gateway.standalone.child PARENT PROGRAM ARGUMENT …`
"""

import ctypes
import os
import signal
import sys
from typing import Final

__all__ = ["command"]

_SET_PARENT_DEATH_SIGNAL: Final = 1  # prctl(2)


def command(program: str, *arguments: str) -> list[str]:
    """What to run, so that `program` does not outlive this process, whatever ends it."""
    return [sys.executable, "-m", __name__, str(os.getpid()), program, *arguments]


def _main(parent: int, program: str, arguments: list[str]) -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() == parent:  # else it ended before the signal was asked for
        os.execv(program, [program, *arguments])  # noqa: S606  our own command, no shell


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
