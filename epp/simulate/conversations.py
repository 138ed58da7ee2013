"""Conversations: each turn's prompt is the whole conversation so far."""

import random
from collections.abc import Iterable

from epp.simulate.prompts import Segment, identity
from epp.simulate.workload import SimRequest

__all__ = ["Conversations"]


class Conversations:
    """Sessions that begin in a Poisson process; a turn comes a while after the answer to the last.

    Lengths are means of exponential draws, at least one token; think times are drawn alike. All sessions
    share one system prompt.
    """

    def __init__(
        self,
        *,
        sessions: int,
        rate: float,
        turns: int,
        system_prompt_len: int,
        user_len: int,
        output_len: int,
        think_time: float,
        seed: int,
    ) -> None:
        for name, value in (("sessions", sessions), ("turns", turns), ("user_len", user_len)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if rate <= 0:
            raise ValueError(f"rate must be positive, got {rate:g}")
        if output_len < 1 or system_prompt_len < 0 or think_time < 0:
            raise ValueError("output_len must be at least 1, system_prompt_len and think_time not negative")
        self._seed = seed
        self._sessions, self._rate, self._turns = sessions, rate, turns
        self._system_len, self._user_len, self._output_len = system_prompt_len, user_len, output_len
        self._think_s = think_time
        self.total = sessions * turns

    def initial(self) -> Iterable[tuple[float, SimRequest]]:
        """The first turn of each session."""
        head = (Segment(identity("system"), self._system_len),) if self._system_len else ()
        now = 0.0
        arrivals = []
        generator = random.Random(self._seed)
        for session in range(self._sessions):
            now += generator.expovariate(self._rate)
            arrivals.append((now, self._turn(head, session, 0)))
        return arrivals

    def next_after(self, request: SimRequest, now: float) -> Iterable[tuple[float, SimRequest]]:
        """The next turn of its session."""
        turn = request.turn + 1
        if turn == self._turns or request.answer is None:
            return ()
        generator = random.Random(identity("think", self._seed, request.session, turn))
        think_s = generator.expovariate(1 / self._think_s) if self._think_s else 0.0
        return ((now + think_s, self._turn((*request.segments, request.answer), request.session, turn)),)

    def _turn(self, before: tuple[Segment, ...], session: int, turn: int) -> SimRequest:
        # Of its own, so that lengths do not depend on the order in which a policy lets turns end.
        generator = random.Random(identity("turn", self._seed, session, turn))
        start = before[-1].end if before else 0
        end = start + _length(generator, self._user_len)
        output = _length(generator, self._output_len)
        return SimRequest(
            session * self._turns + turn,
            (*before, Segment(identity("user", session, turn), end)),
            output,
            session=session,
            turn=turn,
            answer=Segment(identity("answer", session, turn), end + output),
        )


def _length(generator: random.Random, mean: int) -> int:
    return max(1, round(generator.expovariate(1 / mean)))
