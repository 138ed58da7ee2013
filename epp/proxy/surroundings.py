"""What all requests of a relay share, whichever lane serves them."""

from collections.abc import Callable
from dataclasses import dataclass

from epp.director import Director, Exchange
from epp.http import Credentials, UpstreamPool
from epp.proxy.asgi import Scope
from epp.proxy.intake import BodyBudget
from epp.proxy.settings import ProxySettings
from epp.security import KeyGate, TrustedProxies

__all__ = ["Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all requests of a relay share. `now` is in monotonic seconds.

    Without `gate` nobody needs a key; without `proxies` no peer is trusted; without `credentials` a client's
    go to the endpoint.
    """

    director: Director
    pool: UpstreamPool
    settings: ProxySettings
    now: Callable[[], float]
    new_request_id: Callable[[], bytes]
    explain: Callable[[Exchange, Scope], str | None]
    budget: BodyBudget
    gate: KeyGate | None = None
    proxies: TrustedProxies | None = None
    credentials: Credentials | None = None
