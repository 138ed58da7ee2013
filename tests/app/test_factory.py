"""The application for any ASGI server."""

import logging

import pytest

from epp.app import create_app
from epp.errors import ConfigError
from tests.app.asgi import Lifespan, call


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """One endpoint that refuses, logs into a file, and log handlers as they were."""
    for name in ("EPP_CONFIG", "EPP_SETTINGS", "EPP_ADMIN_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EPP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("EPP_ACCESS_LOG_FILE", str(tmp_path / "access.log"))
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


async def test_it_starts_and_stops_with_the_lifespan(tmp_path):
    app = create_app()
    before = await call(app, "/healthz")
    sent = []

    async def receive():
        if not sent:
            return {"type": "lifespan.startup"}
        sent.append((await call(app, "/healthz")).status)
        sent.append((await call(app, "/metrics")).status)
        return {"type": "lifespan.shutdown"}

    async def send(message):
        sent.append(message["type"])

    await app({"type": "lifespan"}, receive, send)

    assert before.status == 503
    assert sent == ["lifespan.startup.complete", 200, 200, "lifespan.shutdown.complete"]


async def test_with_an_admin_port_the_control_surface_is_closed(monkeypatch):
    monkeypatch.setenv("EPP_ADMIN_PORT", "9")

    assert (await call(create_app(), "/metrics")).status == 403


async def test_when_the_router_cannot_start_the_server_is_told(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("EPP_ACCESS_LOG_FILE", str(tmp_path / "missing" / "access.log"))
    lifespan = Lifespan(create_app())

    assert await lifespan.run() == ["lifespan.startup.failed"]
    assert "accessLog.file" in lifespan.sent[0]["message"]
    assert "epp cannot start" in caplog.text


def test_unusable_settings_are_refused_at_once(monkeypatch):
    monkeypatch.setenv("EPP_LOG_LEVEL", "loud")

    with pytest.raises(ConfigError, match="EPP_LOG_LEVEL"):
        create_app()


def test_what_is_odd_in_the_environment_is_logged(monkeypatch, caplog):
    monkeypatch.setenv("EPP_PORT", "tcp://10.0.0.1:8080")

    create_app()

    assert "ignored, as they describe a Kubernetes Service: EPP_PORT" in caplog.text


def test_the_configuration_that_the_environment_names_is_used(monkeypatch, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("kind: Service\n")
    monkeypatch.setenv("EPP_CONFIG", str(file))

    with pytest.raises(ConfigError, match="kind"):
        create_app()
