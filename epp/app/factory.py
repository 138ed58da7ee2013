"""The ASGI application for any server: `uvicorn --factory epp.app:create_app`."""

import argparse
import logging
import os

from starlette.types import Receive, Send

from epp.app.files import Configurations, read_configurations, read_text
from epp.app.front_door import FrontDoor
from epp.app.runtime import Runtime
from epp.config import Settings, load_settings

__all__ = ["create_app"]

logger = logging.getLogger("epp")


def create_app() -> FrontDoor:
    """An application configured by `EPP_*` variables and the files they name; it starts with its lifespan.

    Raises:
        ConfigError: the settings or the configuration cannot be used.
    """
    settings, _sources, notices = load_settings(argparse.Namespace(), os.environ, read_text)
    for notice in notices:
        logger.warning("%s", notice)
    if settings.tls.cert is not None:
        logger.warning("tls has no effect here: give the certificate to the server that runs the application")
    configurations = read_configurations(settings)

    async def lifespan(receive: Receive, send: Send) -> None:
        await _live(door, settings, configurations, receive, send)

    door = FrontDoor(
        control_here=not settings.admin_port,
        allow_engine_admin=settings.allow_engine_admin,
        path_rules=settings.path_rules,
        allowed_origins=settings.cors.allowed_origins,
        lifespan=lifespan,
    )
    return door


async def _live(
    door: FrontDoor, settings: Settings, configurations: Configurations, receive: Receive, send: Send
) -> None:
    """Start and stop the router behind `door` when the server says so."""
    await receive()
    try:
        runtime = Runtime(settings, configurations.live, shadow=configurations.shadow)
        await runtime.start()
    except Exception as error:
        # A server takes an exception for an application without lifespan, and would go on without a router.
        logger.exception("epp cannot start")
        await send({"type": "lifespan.startup.failed", "message": str(error)})
        return
    runtime.attach_to(door)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    runtime.begin_drain()
    await runtime.stop()
    await send({"type": "lifespan.shutdown.complete"})
