"""Passive health: endpoints that fail are left out for a while."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from epp.endpoints.identity_cache import IdentityCache
from epp.endpoints.types import Endpoint

__all__ = ["Cause", "Ejection", "HealthPolicy", "PassiveHealth", "takes_requests"]


class Cause(enum.StrEnum):
    """What ejected an endpoint. Statuses below 500, 503 and a local pool's exhaustion are no causes."""

    CONNECT = "connect"  # refused, unreachable, reset or ended before a byte
    FIRST_BYTE_TIMEOUT = "first-byte-timeout"
    SCRAPE_REFUSED = "scrape-refused"
    ENGINE_DOWN = "engine-down"  # 500 of a draining or dead engine


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """Consecutive failures that eject, and how long the first and the longest ejection lasts."""

    consecutive_failures: int = 3
    backoff_s: float = 5.0
    max_backoff_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Ejection:
    """An endpoint that is left out: why, since when, until its next probe; `level` counts those in a row."""

    address: str
    cause: Cause
    since: float
    until: float
    level: int


@dataclass(slots=True)
class _State:
    """Of one incarnation. `cause` is set while it is ejected; `level` outlives the ejection for a while."""

    incarnation: int
    failures: int = 0
    refusals: int = 0
    cause: Cause | None = None
    since: float = 0.0
    until: float = 0.0
    level: int = 0
    probing: bool = False
    readmitted_at: float = -inf


@dataclass(frozen=True, slots=True)
class _Routable:
    version: int
    until: float
    endpoints: tuple[Endpoint, ...]
    panic: bool


class PassiveHealth:
    """Who may get requests, learned from the requests themselves and from refused scrapes.

    `consecutive_failures` in a row eject an endpoint, a dead engine at once. The back-off doubles with each
    ejection in a row and starts anew after `max_backoff_s` without one. When it is over, the endpoint is half
    open: it is offered again, and the first request that is sent there (`on_pick`) is its probe; until the
    probe's outcome, or for another back-off, it gets no second one. Any response readmits it, any failure
    ejects it for longer. A scrape that succeeds after refused ones opens it early, but only a request
    readmits: an endpoint can answer scrapes and fail requests.

    At most half of the endpoints that are asked for together (those of a model) are left out, so the last one
    never is. Beyond that those whose back-off ends first are offered nevertheless: panic.

    Failures of requests that were under way at the ejection do not lengthen it. Their responses end it,
    except after ENGINE_DOWN, since a draining engine still finishes what it had.
    """

    def __init__(self, policy: HealthPolicy | None = None) -> None:
        self._policy = policy or HealthPolicy()
        self._states: dict[int, _State] = {}
        self._version = 0
        self._cache: IdentityCache[_Routable] = IdentityCache()
        self._ejections = dict.fromkeys(Cause, 0)

    @property
    def ejections(self) -> Mapping[Cause, int]:
        """Ejections since the start, by cause; an ejection that is prolonged counts again."""
        return self._ejections

    def routable(self, endpoints: tuple[Endpoint, ...], now: float) -> tuple[Endpoint, ...]:
        """Those of `endpoints` that may be picked: not draining, awake, and not ejected.

        Returns the same tuple object for the same argument while nothing changes, `endpoints` itself when
        nobody is left out.
        """
        return self._look_up(endpoints, now).endpoints

    def panic(self, endpoints: tuple[Endpoint, ...], now: float) -> bool:
        """More of `endpoints` are ejected than may be left out."""
        return self._look_up(endpoints, now).panic

    def ejected(self, endpoint: Endpoint, now: float) -> Ejection | None:
        """Why the endpoint should not be picked, None when it may be; panic is not regarded."""
        state = self._known(endpoint)
        if state is None or state.cause is None or now >= state.until:
            return None
        return Ejection(endpoint.address, state.cause, state.since, state.until, state.level)

    def on_pick(self, endpoint: Endpoint, now: float) -> None:
        """A request is sent to the endpoint: when it is half open, this is its probe."""
        state = self._known(endpoint) if self._states else None
        if state is not None and state.cause is not None and now >= state.until:
            state.probing = True
            state.until = now + self._backoff_s(state.level)
            self._version += 1

    def on_connect_failure(self, endpoint: Endpoint, now: float) -> bool:
        """A fresh connection failed before a byte of the response. True when that ejects the endpoint."""
        return self._on_failure(endpoint, Cause.CONNECT, now)

    def on_first_byte_timeout(self, endpoint: Endpoint, now: float) -> bool:
        """No byte of the response came in time. True when that ejects the endpoint."""
        return self._on_failure(endpoint, Cause.FIRST_BYTE_TIMEOUT, now)

    def on_engine_down(self, endpoint: Endpoint, now: float) -> bool:
        """A draining or dead engine answered. True when that ejects the endpoint."""
        return self._on_failure(endpoint, Cause.ENGINE_DOWN, now)

    def on_scrape_refused(self, endpoint: Endpoint, now: float) -> bool:
        """A scrape of the port that takes requests was refused. True when that ejects the endpoint."""
        return self._on_failure(endpoint, Cause.SCRAPE_REFUSED, now)

    def on_response(self, endpoint: Endpoint, now: float) -> None:
        """The head of a response came, whatever its status but a dead engine's 500."""
        state = self._known(endpoint) if self._states else None
        if state is None:
            return
        state.failures = state.refusals = 0
        if state.cause is None:
            return
        if state.cause is Cause.ENGINE_DOWN and not state.probing and now < state.until:
            return
        state.cause, state.probing, state.readmitted_at = None, False, now
        self._version += 1

    def on_scrape(self, endpoint: Endpoint, now: float) -> None:
        """A scrape succeeded."""
        state = self._known(endpoint)
        if state is None or not state.refusals:
            return
        state.refusals = 0
        if state.cause is not None and not state.probing:
            state.until = min(state.until, now)
            self._version += 1

    def _known(self, endpoint: Endpoint) -> _State | None:
        state = self._states.get(endpoint.slot)
        return state if state is not None and state.incarnation == endpoint.incarnation else None

    def _on_failure(self, endpoint: Endpoint, cause: Cause, now: float) -> bool:
        state = self._states.get(endpoint.slot)
        if state is not None and state.incarnation > endpoint.incarnation:
            return False
        if state is None or state.incarnation < endpoint.incarnation:
            state = self._states[endpoint.slot] = _State(endpoint.incarnation)
        if cause is Cause.SCRAPE_REFUSED:
            state.refusals += 1
        else:
            state.failures += 1
        if not self._ejects(state, cause, now):
            return False
        self._eject(state, cause, now)
        return True

    def _ejects(self, state: _State, cause: Cause, now: float) -> bool:
        if state.cause is not None:
            return state.probing or now >= state.until
        if cause is Cause.ENGINE_DOWN:
            return True
        return state.failures + state.refusals >= self._policy.consecutive_failures

    def _eject(self, state: _State, cause: Cause, now: float) -> None:
        if state.cause is None:
            state.since = now
            if now - state.readmitted_at > self._policy.max_backoff_s:
                state.level = 0
        state.level += 1
        state.cause, state.probing = cause, False
        state.until = now + self._backoff_s(state.level)
        self._ejections[cause] += 1
        self._version += 1

    def _backoff_s(self, level: int) -> float:
        doublings = min(level - 1, 32)
        return min(self._policy.backoff_s * 2.0**doublings, self._policy.max_backoff_s)

    def _look_up(self, endpoints: tuple[Endpoint, ...], now: float) -> _Routable:
        known = self._cache.get(endpoints)
        if known is None or known.version != self._version or now >= known.until:
            known = self._compute(endpoints, now)
            self._cache.put(endpoints, known)
        return known

    def _compute(self, endpoints: tuple[Endpoint, ...], now: float) -> _Routable:
        able = tuple(filter(takes_requests, endpoints))
        ends = self._back_offs(able, now)
        most = len(able) // 2
        kept = able
        if ends:
            longest = set(sorted(ends, key=lambda slot: (-ends[slot], slot))[:most])
            kept = tuple([e for e in able if e.slot not in longest])
        return _Routable(
            version=self._version,
            until=min(ends.values(), default=inf),
            endpoints=endpoints if len(kept) == len(endpoints) else kept,
            panic=len(ends) > most,
        )

    def _back_offs(self, endpoints: tuple[Endpoint, ...], now: float) -> dict[int, float]:
        """Slot → end of the back-off, for those that are ejected."""
        if not self._states:
            return {}
        found = ((e.slot, self.ejected(e, now)) for e in endpoints)
        return {slot: left_out.until for slot, left_out in found if left_out is not None}


def takes_requests(endpoint: Endpoint) -> bool:
    """Neither draining nor asleep. A sleep that was seen long ago does not count: the engine may be awake."""
    metrics = endpoint.metrics
    asleep = metrics is not None and metrics.awake is False and endpoint.fresh
    return not (endpoint.draining or asleep)
