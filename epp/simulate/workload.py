"""What clients send: requests with the time they come, or with what they wait for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from epp.simulate.prompts import Segment

__all__ = ["ClosedLoop", "OpenLoop", "SimRequest", "Staged", "Workload"]


@dataclass(frozen=True, slots=True, eq=False)
class SimRequest:
    """One request.

    Attributes:
        number: its place in the workload.
        segments: the prompt, see `epp.simulate.prompts`; the last one's end is its length in tokens.
        output_tokens: length of the answer.
        max_tokens: the limit that the client sends, None where it sends none.
        stage: of a ladder of rates.
        session: conversation it belongs to, -1 for none; `turn` is its place in it.
        answer: names the answer where a later prompt holds it, up to its end behind the prompt.
    """

    number: int
    segments: tuple[Segment, ...]
    output_tokens: int
    max_tokens: int | None = None
    stage: int = 0
    session: int = -1
    turn: int = 0
    answer: Segment | None = None

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return self.segments[-1].end


class Workload(Protocol):
    """Requests and when they come."""

    total: int

    def initial(self) -> Iterable[tuple[float, SimRequest]]:
        """Requests whose time is known at the start, with their seconds, in order."""
        ...

    def next_after(self, request: SimRequest, now: float) -> Iterable[tuple[float, SimRequest]]:
        """What comes because `request` has ended."""
        ...


class OpenLoop:
    """Requests that come at their times, whatever the fleet does; `note` is what to know of them."""

    def __init__(self, arrivals: Sequence[tuple[float, SimRequest]]) -> None:
        self.note = ""
        self._arrivals = arrivals
        self.total = len(arrivals)

    def initial(self) -> Iterable[tuple[float, SimRequest]]:
        """All of them."""
        return self._arrivals

    def next_after(self, _request: SimRequest, _now: float) -> Iterable[tuple[float, SimRequest]]:
        """Nothing."""
        return ()


class ClosedLoop:
    """A fixed number of clients, each sending its next request when the last one has ended."""

    def __init__(self, requests: Sequence[SimRequest], clients: int, gap_s: float) -> None:
        self._requests = requests
        self._clients = clients
        self._gap_s = gap_s
        self._sent = 0
        self.total = len(requests)

    def initial(self) -> Iterable[tuple[float, SimRequest]]:
        """One request a client, at once."""
        self._sent = min(self._clients, self.total)
        return [(0.0, request) for request in self._requests[: self._sent]]

    def next_after(self, _request: SimRequest, now: float) -> Iterable[tuple[float, SimRequest]]:
        """The next one of the list, after the client's pause."""
        if self._sent == self.total:
            return ()
        request = self._requests[self._sent]
        self._sent += 1
        return ((now + self._gap_s, request),)


class Staged:
    """Stages of requests, each with times from its start; one starts when all of the last have ended.

    `pauses_s` are the seconds from the end of a stage to the start of the next.
    """

    def __init__(
        self, stages: Sequence[Sequence[tuple[float, SimRequest]]], pauses_s: Sequence[float]
    ) -> None:
        self._stages = stages
        self._pauses_s = pauses_s
        self._left = 0
        self._next = 0
        self.total = sum(map(len, stages))

    def initial(self) -> Iterable[tuple[float, SimRequest]]:
        """The first stage."""
        self._next = 0
        return self._start(0.0)

    def next_after(self, _request: SimRequest, now: float) -> Iterable[tuple[float, SimRequest]]:
        """The next stage, after the last request of this one."""
        self._left -= 1
        if self._left or self._next == len(self._stages):
            return ()
        return self._start(now + self._pauses_s[self._next - 1])

    def _start(self, when: float) -> Iterable[tuple[float, SimRequest]]:
        stage = self._stages[self._next]
        self._next += 1
        self._left = len(stage)
        return [(when + after_s, request) for after_s, request in stage]
