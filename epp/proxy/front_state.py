"""What the connections of one listener share."""

import asyncio
from collections.abc import Callable

from uvicorn.server import ServerState

from epp.proxy.settings import ProxySettings

__all__ = ["FrontState"]


class FrontState(ServerState):
    """What all connections of one listener share."""

    def __init__(
        self, settings: ProxySettings, new_request_id: Callable[[], bytes], changed: asyncio.Event
    ) -> None:
        super().__init__()
        self.settings = settings
        self.new_request_id = new_request_id
        self.changed = changed  # set when a connection became idle or went away
        self.draining = False
        self.closed = False  # no connection may begin: a handshake may end after its listener did
