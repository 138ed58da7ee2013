"""The ASGI application for any server: `uvicorn --factory epp.app:create_app`."""

import argparse
import os
from pathlib import Path

from starlette.types import Receive, Send

from epp.app.configurations import read_configurations
from epp.app.front_door import FrontDoor
from epp.app.runtime import Runtime
from epp.config import load_settings

__all__ = ["create_app"]


def create_app() -> FrontDoor:
    """An application configured by `EPP_*` variables and the files they name; it starts with its lifespan.

    Raises:
        ConfigError: the settings or the configuration cannot be used.
    """
    settings, _sources, _notices = load_settings(argparse.Namespace(), os.environ, _read_text)
    configurations = read_configurations(settings)
    runtime: Runtime | None = None

    async def lifespan(receive: Receive, send: Send) -> None:
        nonlocal runtime
        await receive()
        runtime = Runtime(settings, configurations.live, shadow=configurations.shadow)
        await runtime.start()
        door.attach(runtime.relay, runtime.control)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        runtime.begin_drain()
        await runtime.stop()
        await send({"type": "lifespan.shutdown.complete"})

    door = FrontDoor(
        control_here=not settings.admin_port,
        allow_engine_admin=settings.allow_engine_admin,
        lifespan=lifespan,
    )
    return door


def _read_text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
