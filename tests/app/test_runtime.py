"""One router around its core: start, background work, stop."""

import gc
import json
import logging
import signal
import socket

import pytest

from epp.app import Runtime, serve, server
from epp.config import Settings, load_config
from epp.config.builtin import builtin_config
from epp.config.settings import AccessLogSettings, LogSettings, MetricsSettings
from epp.director import EndReason, RequestHead
from epp.endpoints.spec import parse_endpoints
from epp.errors import ConfigError
from epp.proxy import bind_socket
from tests.app.asgi import call

CONFIG = load_config(builtin_config(), "default.yaml")


@pytest.fixture(autouse=True)
def _log_handlers():
    """As they were before."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    gc.unfreeze()


@pytest.fixture
def settings(tmp_path):
    """A router in front of an endpoint that refuses."""

    def made(**changes):
        return Settings(
            **{
                "host": "127.0.0.1",
                "port": 0,
                "endpoint": parse_endpoints(["http://127.0.0.1:1"]),
                "access_log": AccessLogSettings(file=str(tmp_path / "access.log")),
            }
            | changes
        )

    return made


@pytest.fixture
async def runtime(settings):
    """A runtime that is started and stopped."""
    made = Runtime(settings(), CONFIG)
    await made.start()
    yield made
    await made.stop()


async def ready(runtime):
    return json.loads((await call(runtime.app, "/readyz")).body)["reasons"]


async def test_background_work_that_dies_fails_readiness_and_is_named(settings):
    runtime = Runtime(settings(), CONFIG)

    def broken(_now):
        raise KeyError("slot")

    runtime.core.upkeep.tick = broken
    await runtime.start()
    [task] = runtime._tasks.values()
    with pytest.raises(KeyError):
        await task
    reasons = await ready(runtime)
    await runtime.stop()

    assert "background task upkeep died: KeyError" in reasons


async def test_background_work_that_ends_without_an_error_fails_readiness_too(runtime):
    async def short():
        return

    runtime._spawn("short", short())
    await runtime._tasks["short"]

    assert "background task short died: ended" in await ready(runtime)


async def test_a_drain_fails_readiness_and_is_logged_once(runtime, caplog):
    runtime.begin_drain()
    runtime.begin_drain()

    assert "shutting down" in await ready(runtime)
    assert [record.message for record in caplog.records].count("draining") == 1


async def test_warnings_of_the_configuration_are_logged(settings, capsys):
    text = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: active-request-scorer
  parameters: {requestTimeout: 1m}
"""
    runtime = Runtime(settings(log=LogSettings(format="json")), load_config(text, "old.yaml"))

    await runtime.start()
    await runtime.stop()

    warnings = [json.loads(line) for line in capsys.readouterr().err.splitlines() if '"warning"' in line]
    assert any("requestTimeout" in line["message"] for line in warnings)


async def test_an_observer_that_fails_is_counted_and_logged_and_spares_the_others(runtime, caplog):
    def broken(_line):
        raise ValueError("no room")

    runtime.observers._access_log._write = broken

    answer = await call(runtime.app, "/v1/chat/completions", method="POST")
    page = (await call(runtime.app, "/metrics")).body.decode()

    assert answer.status == 400
    assert 'epp_observer_errors_total{observer="access_log"} 1' in page
    assert 'epp_requests_total{reason="rejected",status="400"} 1' in page
    assert "observer access_log failed" in caplog.text


async def test_without_a_file_the_access_log_is_standard_output(settings, capfd):
    runtime = Runtime(settings(access_log=AccessLogSettings(), log=LogSettings(format="human")), CONFIG)
    await runtime.start()
    runtime.on_hangup()
    await call(runtime.app, "/v1/chat/completions", method="POST")
    await runtime.stop()

    out, err = capfd.readouterr()
    assert " 400 POST /v1/chat/completions " in out
    assert " INFO epp epp started " in err


async def test_a_file_that_cannot_be_opened_is_a_configuration_error(settings, tmp_path):
    file = tmp_path / "missing" / "access.log"

    with pytest.raises(ConfigError, match=r"accessLog\.file"):
        Runtime(settings(access_log=AccessLogSettings(file=str(file))), CONFIG)


async def test_the_path_of_the_metrics_page_and_the_interval_reach_the_scraper(settings):
    metrics = MetricsSettings(path="/prometheus", refresh_interval_s=3.0)

    runtime = Runtime(settings(metrics=metrics), CONFIG)
    scraping = runtime.sources._scraper._settings
    await runtime.stop()

    assert (scraping.path, scraping.refresh_interval_s, scraping.stale_s) == ("/prometheus", 3.0, 9.0)


def test_serving_ends_with_a_signal_and_tells_where_it_listened(settings):
    urls = []

    def started(where):
        urls.append(where)
        signal.raise_signal(signal.SIGTERM)

    serve(settings(), CONFIG, started)

    assert urls[0].url.startswith("http://127.0.0.1:")
    assert urls[0].admin_url is None


@pytest.mark.parametrize(
    ("host", "shown"), [("0.0.0.0", "http://127.0.0.1:"), ("::1", "http://[::1]:"), ("::", "http://[::1]:")]
)
def test_the_url_is_one_that_can_be_opened(settings, host, shown):
    urls = []

    def started(where):
        urls.append(where.url)
        signal.raise_signal(signal.SIGTERM)

    serve(settings(host=host), CONFIG, started)

    assert urls[0].startswith(shown)


def test_an_address_that_is_taken_is_named(settings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use") as raised:
            serve(settings(port=port), CONFIG)

    assert raised.value.filename == f"127.0.0.1:{port}"


def test_an_address_that_somebody_began_to_listen_on_is_named_too(settings, monkeypatch):
    """Two sockets may be bound to one port as long as none of them listens."""
    rival = socket.socket()
    rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    rival.bind(("127.0.0.1", 0))
    port = rival.getsockname()[1]

    def bind_late(host, number):
        bound = bind_socket(host, number)
        rival.listen()
        return bound

    monkeypatch.setattr(server, "bind_socket", bind_late)

    with rival, pytest.raises(OSError, match="in use") as raised:
        serve(settings(port=port), CONFIG)

    assert raised.value.filename == f"127.0.0.1:{port}"


def test_a_server_that_ends_before_it_has_started_is_not_waited_for(settings, monkeypatch):
    async def fail(*_sockets):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(server.EppServer, "serve", fail)

    with pytest.raises(OSError, match="Too many open files"):
        serve(settings(), CONFIG)


async def test_two_routers_live_in_one_process(settings, tmp_path):
    first = Runtime(settings(), CONFIG)
    second = Runtime(settings(endpoint=parse_endpoints(["http://127.0.0.1:2"])), CONFIG)
    await first.start()
    await second.start()

    endpoints = [
        list(json.loads((await call(runtime.app, "/readyz")).body)["detail"]["endpoints"])
        for runtime in (first, second)
    ]
    await first.stop()
    await second.stop()

    assert endpoints == [["127.0.0.1:1"], ["127.0.0.1:2"]]


async def test_metrics_and_decisions_count_requests_that_ended_in_this_turn_of_the_loop(runtime):
    director = runtime.core.director
    for number in range(2):
        exchange = director.open(RequestHead(f"r{number}", "POST", "/v1/completions"), 1.0)
        director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, 2.0)

        page = b"".join(runtime.observers.render_metrics())
        assert b'epp_requests_total{reason="client_disconnected",status=""} %d\n' % (number + 1) in page
        director.on_end(
            director.open(RequestHead("t", "POST", "/v1/completions"), 1.0), EndReason.TIMEOUT, 2.0
        )
        assert len(list(runtime.observers.render(10))) == 2 * (number + 1)
