"""Whether a failed execution may be repeated: the retry contract as pure rules.

Until a byte has gone to the client an inference request may be sent again. Connection failures before
anything was written cost nothing and go through the list of endpoints; everything else counts as an
execution, of which there are at most `max_executions`. Repeats after a 500 or 503 come out of a budget, so
that an overloaded fleet is not hit harder because it is overloaded; repeats after a broken connection do not.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from epp.director.types import Failure, FailureKind

__all__ = ["RetryBudget", "RetryPolicy", "may_repeat"]

_WINDOW_S: Final = 10.0
_BUDGETED: Final = frozenset({FailureKind.UNAVAILABLE, FailureKind.ENGINE_DOWN})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of the contract."""

    max_executions: int = 3
    budget_share: float = 0.2  # of the requests of the last 10 s
    budget_minimum: int = 3


class RetryBudget:
    """Counts requests and budgeted repeats of the last ten seconds."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._requests: deque[list[int]] = deque()  # [second, count], one entry a second
        self._request_count = 0
        self._repeats: deque[float] = deque()

    def on_request(self, now: float) -> None:
        """A request arrived."""
        second = int(now)
        self._request_count += 1
        if self._requests and self._requests[-1][0] == second:
            self._requests[-1][1] += 1
        else:
            self._requests.append([second, 1])
            self._forget(now)

    def allows(self, failure: Failure, now: float) -> bool:
        """Whether a repeat after `failure` may be made; one that is limited is spent."""
        return failure.kind not in _BUDGETED or self.take(now)

    def take(self, now: float) -> bool:
        """Spend one repeat if there is one."""
        if not self.has_room(now):
            return False
        self._repeats.append(now)
        return True

    def has_room(self, now: float) -> bool:
        """There is a repeat to spend."""
        self._forget(now)
        allowed = max(self._policy.budget_minimum, int(self._policy.budget_share * self._request_count))
        return len(self._repeats) < allowed

    def spend(self, count: int, now: float) -> None:
        """Somebody else has made `count` repeats, more than there may have been."""
        self._repeats.extend([now] * count)

    def _forget(self, now: float) -> None:
        oldest = now - _WINDOW_S
        while self._requests and self._requests[0][0] < int(oldest):
            self._request_count -= self._requests.popleft()[1]
        while self._repeats and self._repeats[0] <= oldest:
            self._repeats.popleft()


def may_repeat(
    failure: Failure,
    *,
    replay_safe: bool,
    executions: int,
    policy: RetryPolicy,
) -> bool:
    """Whether the request may be sent again after `failure`, `executions` being those made so far.

    What the budget says is asked last, when there is somebody to send to.
    """
    if failure.kind is FailureKind.FIRST_BYTE_TIMEOUT:
        return False
    if failure.written and not replay_safe:
        return False
    return failure.kind is FailureKind.CONNECT or executions < policy.max_executions
