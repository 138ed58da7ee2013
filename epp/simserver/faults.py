"""Faults on request: what a proxy must survive.

A fault is written `name` or `name=value`, several are separated by commas:

    status=N          answer N with an error body of vLLM's shape
    draining          500 as after SIGTERM
    engine-dead       500 as after the death of the engine process
    slow-head=S       wait S seconds before the head
    hang              read the request and never answer
    reset-before-head read the request and reset the connection
    reset-in-head     begin the head and reset the connection
    close-before-head read the request and close the connection
    garbage-head      answer with bytes that are not HTTP
    reset-after=N     reset the connection after N chunks of the body
    truncate=N        close the connection after N chunks, without the end of the body
    hang-after=N      go silent after N chunks
    error-event=N     after N chunks an error event and `data: [DONE]`
"""

import math
from collections import deque
from dataclasses import dataclass, replace

__all__ = ["NO_FAULT", "FaultPlan", "Faults", "parse_faults"]

HEAD_FAULTS = (
    "draining", "engine-dead", "hang", "reset-before-head", "reset-in-head", "close-before-head",
    "garbage-head",
)  # fmt: skip
BODY_FAULTS = ("reset-after", "truncate", "hang-after", "error-event")


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What goes wrong with one request.

    Attributes:
        status: answer this status instead of serving.
        head: one of HEAD_FAULTS; "" serves the head as usual.
        slow_head_s: wait this long before the head.
        body: one of BODY_FAULTS; "" serves the body as usual.
        body_chunks: chunks of the body before it happens.
    """

    status: int | None = None
    head: str = ""
    slow_head_s: float = 0.0
    body: str = ""
    body_chunks: int = 0


NO_FAULT = FaultPlan()


def parse_faults(text: str) -> FaultPlan:
    """Read faults as written above; raises ValueError that names the one not understood."""
    plan = NO_FAULT
    for item in text.split(","):
        name, _, value = item.strip().partition("=")
        try:
            plan = _with_fault(plan, name, value)
        except ValueError as error:
            raise ValueError(f"fault {item.strip()!r}: {error}") from error
    return plan


def _with_fault(plan: FaultPlan, name: str, value: str) -> FaultPlan:
    if name in HEAD_FAULTS and not value:
        return replace(plan, head=name)
    if name in BODY_FAULTS:
        return replace(plan, body=name, body_chunks=_bounded_int(value or "1", 0, 1_000_000))
    if name == "status":
        return replace(plan, status=_bounded_int(value, 200, 599))
    if name == "slow-head":
        seconds = float(value)
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError("must be a number of seconds, at least 0")
        return replace(plan, slow_head_s=seconds)
    raise ValueError(f"unknown; known are {', '.join(('status', 'slow-head', *HEAD_FAULTS, *BODY_FAULTS))}")


def _bounded_int(text: str, low: int, high: int) -> int:
    value = int(text)
    if not low <= value <= high:
        raise ValueError(f"must lie between {low} and {high}")
    return value


class Faults:
    """Faults that wait for requests: each applies to the next `times` requests of its path."""

    def __init__(self) -> None:
        self._queue: deque[tuple[FaultPlan, str, list[int | None]]] = deque()

    def add(self, text: str, *, times: int | None = 1, path: str = "") -> None:
        """Let the next `times` requests (None: every one) whose path begins with `path` fail.

        Without a path only inference requests fail. Raises ValueError when `text` cannot be read.
        """
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, got {times}")
        self._queue.append((parse_faults(text), path, [times]))

    def clear(self) -> None:
        """Serve everything again."""
        self._queue.clear()

    def __len__(self) -> int:
        return len(self._queue)

    def take(self, path: str, header: str | None, *, inference: bool) -> FaultPlan:
        """The fault of this request: what its header asks for, else the first that waits for its path.

        Raises ValueError when the header cannot be read.
        """
        if header is not None:
            return parse_faults(header)
        for entry in self._queue:
            plan, prefix, left = entry
            if not (path.startswith(prefix) if prefix else inference):
                continue
            if left[0] is not None:
                left[0] -= 1
                if left[0] == 0:
                    self._queue.remove(entry)
            return plan
        return NO_FAULT
