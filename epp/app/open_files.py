"""The process's limit of open files: each request in flight takes two."""

import contextlib
import resource
from typing import Final

__all__ = ["open_files_limit", "raise_open_files_limit"]

# Linux's own bound of a process (fs.nr_open): more cannot be asked for.
_MOST: Final = 1_048_576


def open_files_limit() -> int:
    """The limit that holds."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_open_files_limit() -> None:
    """Raise the soft limit as far as the hard one allows.

    Shells and service managers start processes with a soft limit of 1,024, for the sake of programs that use
    `select`, and leave it to others to raise it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some containers allow less than they say: what holds is in the log.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
