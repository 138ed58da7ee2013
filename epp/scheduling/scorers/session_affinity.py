"""session-affinity-scorer."""

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from epp.endpoints.identity_cache import IdentityCache
from epp.endpoints.types import Endpoint
from epp.scheduling.added_headers import is_reserved
from epp.scheduling.contracts import BuildContext, Column, Cycle, SegmentColumn, Volatility
from epp.scheduling.registry import Fault, param
from epp.scheduling.scorers.sessions import SessionBindings

__all__ = [
    "EncodedEndpointAffinity", "EncodedEndpointParameters", "SessionAffinityParameters",
    "SessionIdAffinity", "SessionIdParameters", "SessionIdSource", "build_session_affinity",
]  # fmt: skip

_TYPE: Final = "session-affinity-scorer"
_TOKEN_HEADER: Final = "x-session-token"  # noqa: S105 - the name of a header
_ID_HEADER: Final = "x-session-id"
_SESSION_ID: Final = "session_id"
_FIELD_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110 section 5.1


def _name_faults(key: str, name: str) -> Iterator[Fault]:
    if not _FIELD_NAME.fullmatch(name):
        yield Fault(key, "is not the name of a header", f"write a name such as {_ID_HEADER}")


@dataclass(frozen=True, slots=True)
class EncodedEndpointParameters:
    """Parameters of the strategy encoded_endpoint_header."""

    header: str = param(_TOKEN_HEADER, key="headerName", doc="Header of request and response.")

    def faults(self) -> Iterator[Fault]:
        """It is sent to clients, and must take nobody's place."""
        yield from _name_faults("headerName", self.header)
        if is_reserved(self.header.lower()):
            remedy = f"write a name of your own, such as {_TOKEN_HEADER}"
            yield Fault("headerName", "is the name of a header that the router or HTTP itself sets", remedy)


@dataclass(frozen=True, slots=True)
class SessionIdSource:
    """One place where a session's id may stand."""

    header: str = param("", key="header", doc="A request header.", required=True)

    def faults(self) -> Iterator[Fault]:
        """Only headers can be read."""
        return _name_faults("header", self.header)


@dataclass(frozen=True, slots=True)
class SessionIdParameters:
    """Parameters of the strategy session_id."""

    sources: tuple[SessionIdSource, ...] = param(
        (), key="sources", doc=f"Where the id stands; the first that is not empty counts. None: {_ID_HEADER}."
    )
    eviction_ttl_seconds: float = param(
        300.0, key="evictionTtlSeconds", doc="How long an unused session is remembered.", above=0
    )
    eviction_sweep_seconds: float = param(
        10.0, key="evictionSweepSeconds", doc="Ignored: sessions are forgotten as others come.", above=0
    )
    max_sessions: int = param(
        65_536, key="maxSessions", doc="How many sessions are remembered, the last used.", above=0
    )


@dataclass(frozen=True, slots=True)
class SessionAffinityParameters:
    """Parameters of session-affinity-scorer; those of the other strategy have no effect."""

    strategy: str = param(
        "encoded_endpoint_header",
        key="strategy",
        doc="Who remembers: encoded_endpoint_header the client, session_id this router.",
        choices=("encoded_endpoint_header", _SESSION_ID),
    )
    encoded_endpoint: EncodedEndpointParameters | None = param(
        None, key="encodedEndpointHeaderConfig", doc="For encoded_endpoint_header."
    )
    session_id: SessionIdParameters | None = param(None, key="sessionIdConfig", doc="For session_id.")


class _Addresses:
    """The masks of the candidates, by address."""

    def __init__(self) -> None:
        self._masks: IdentityCache[dict[str, int]] = IdentityCache()

    def mask(self, candidates: tuple[Endpoint, ...], address: str | None) -> int:
        """The bit of the candidate at `address`, 0 when it is none."""
        masks = self._masks.get(candidates)
        if masks is None:
            masks = {endpoint.address: 1 << endpoint.slot for endpoint in candidates}
            self._masks.put(candidates, masks)
        return masks.get(address, 0) if address is not None else 0

    def column(self, cycle: Cycle, address: str | None) -> Column:
        """1 for the candidate at `address`, 0 for the others."""
        mask = self.mask(cycle.candidates, address)
        return SegmentColumn(cycle.slots(), 0.0, ((mask, 1.0),) if mask else ())


class EncodedEndpointAffinity:
    """Prefers the endpoint that a token names, which the client got with an earlier answer and sends back.

    Formula: 1 for the endpoint whose address the header holds in base64, 0 for the others. The answer carries
    the token of the endpoint that gave it, whichever that was.
    Missing data: no token, one that cannot be read, or of an endpoint that is no candidate: 0 for each.
    Ties: all but one are equal.
    """

    type: ClassVar[str] = _TYPE
    volatility: ClassVar[Volatility] = "request"

    def __init__(self, name: str, header: str = _TOKEN_HEADER) -> None:
        self.name = name
        self._header = header.lower()
        self._addresses = _Addresses()

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        token = cycle.headers.get(self._header)
        return self._addresses.column(cycle, _address_in(token) if token else None)

    def response_headers(self, endpoint: Endpoint) -> tuple[tuple[str, str], ...]:
        """The token that names `endpoint`."""
        return ((self._header, base64.b64encode(endpoint.address.encode()).decode()),)


class SessionIdAffinity:
    """Prefers the endpoint that the request's session is bound to.

    Formula: 1 for that endpoint, 0 for the others. A session is bound where its first request goes, and moves
    when its endpoint is no candidate any more, not when another endpoint has won by its other scores.
    Missing data: no session id, or a session that is not bound: 0 for each.
    Ties: all but one are equal.
    """

    type: ClassVar[str] = _TYPE
    volatility: ClassVar[Volatility] = "request"

    def __init__(self, name: str, bindings: SessionBindings, headers: Sequence[str] = (_ID_HEADER,)) -> None:
        self.name = name
        self._bindings = bindings
        self._headers = tuple(header.lower() for header in headers)
        self._addresses = _Addresses()

    def score(self, cycle: Cycle) -> Column:
        """One number in [0, 1] a candidate."""
        return self._addresses.column(cycle, self._bound(self._session_id(cycle), cycle.now))

    def on_picked(self, cycle: Cycle, endpoint: Endpoint) -> None:
        """Remember where the session went."""
        session_id = self._session_id(cycle)
        if not session_id:
            return
        bound = self._bound(session_id, cycle.now)
        if bound is None or not self._addresses.mask(cycle.candidates, bound):
            bound = endpoint.address
        self._bindings.bind(session_id, bound, cycle.now)

    def _bound(self, session_id: str, now: float) -> str | None:
        return self._bindings.address_of(session_id, now) if session_id else None

    def _session_id(self, cycle: Cycle) -> str:
        values = (cycle.headers.get(header, "").strip() for header in self._headers)
        return next((value for value in values if value), "")


def _address_in(token: str) -> str | None:
    try:
        return base64.b64decode(token, validate=True).decode()
    except ValueError:
        return None


def build_session_affinity(
    name: str, parameters: SessionAffinityParameters, _context: BuildContext
) -> EncodedEndpointAffinity | SessionIdAffinity:
    """Factory for the registry."""
    if parameters.strategy != _SESSION_ID:
        encoded = parameters.encoded_endpoint or EncodedEndpointParameters()
        return EncodedEndpointAffinity(name, encoded.header)
    told = parameters.session_id or SessionIdParameters()
    headers = [source.header for source in told.sources] or [_ID_HEADER]
    return SessionIdAffinity(name, SessionBindings(told.eviction_ttl_seconds, told.max_sessions), headers)
