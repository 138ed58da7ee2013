"""Reads metrics pages, vLLM's and the router's."""

import re
import time
import urllib.request
from collections.abc import Callable

__all__ = ["read", "until"]

_SERIES = re.compile(r"^(?P<name>[\w:]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def read(url: str, name: str, **labels: str) -> float:
    """Sum of the series `name` that have at least these labels; 0 where there is none."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    total = 0.0
    for series in _SERIES.finditer(page):
        found = dict(_LABEL.findall(series["labels"] or ""))
        if series["name"] == name and labels.items() <= found.items():
            total += float(series["value"])
    return total


def until(condition: Callable[[], object], what: str, limit_s: float = 60.0) -> None:
    """Wait for what another process is about to do.

    Raises:
        AssertionError: it did not happen in `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"did not happen in {limit_s:g} s: {what}"
        time.sleep(0.05)
