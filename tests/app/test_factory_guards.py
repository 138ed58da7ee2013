"""The application for any ASGI server is guarded as the router's own server is."""

import asyncio
import gc
import logging

import httpx
import pytest

from epp.app import create_app
from tests.e2e.kit import chat


@pytest.fixture
def logs():
    """What starting does to the process's logs is undone."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    gc.unfreeze()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


async def test_an_application_for_any_server_asks_for_keys(serve, monkeypatch, tmp_path, logs):
    endpoint = await serve()
    for name, value in {
        "EPP_ENDPOINT": endpoint.url,
        "EPP_API_KEYS_KEY": "team-a=one",
        "EPP_ACCESS_LOG_FILE": str(tmp_path / "access.log"),
    }.items():
        monkeypatch.setenv(name, value)
    app = create_app()
    told: asyncio.Queue = asyncio.Queue()
    answered: asyncio.Queue = asyncio.Queue()
    told.put_nowait({"type": "lifespan.startup"})
    living = asyncio.create_task(app({"type": "lifespan"}, told.get, answered.put))
    assert (await answered.get())["type"] == "lifespan.startup.complete"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://router") as client:
        assert (await client.post("/v1/chat/completions", json=chat())).status_code == 401
        assert (await client.get("/v1/models")).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
        client.headers["authorization"] = "Bearer one"
        assert (await client.post("/v1/chat/completions", json=chat())).status_code == 200
    told.put_nowait({"type": "lifespan.shutdown"})
    await living
    assert (await answered.get())["type"] == "lifespan.shutdown.complete"


def test_a_certificate_that_only_the_server_could_use_is_warned_of(monkeypatch, caplog):
    for name in ("CERT", "KEY"):
        monkeypatch.setenv(f"EPP_TLS_{name}", "/gone")
    create_app()
    assert [record.message for record in caplog.records] == [
        "tls has no effect here: give the certificate to the server that runs the application"
    ]
