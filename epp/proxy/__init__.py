"""The HTTP front door: what turns bytes into a request for the director, and its decision into bytes.

`EppServer` listens, limits and drains; `Relay` is the ASGI application that relays to an endpoint. Neither
decides: the director does.
"""

from epp.proxy.engine_admin import EngineAdmin
from epp.proxy.errors import ErrorResponse, render_error
from epp.proxy.fast_protocol import FastLane
from epp.proxy.relay import Relay
from epp.proxy.relayed import ResponseAbortedError
from epp.proxy.server import EppServer, bind_socket
from epp.proxy.settings import ProxySettings

__all__ = [
    "EngineAdmin", "EppServer", "ErrorResponse", "FastLane", "ProxySettings", "Relay", "ResponseAbortedError",
    "bind_socket", "render_error",
]  # fmt: skip
