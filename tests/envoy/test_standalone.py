"""`epp gateway`: Envoy in front, epp deciding over ext_authz."""

import asyncio
import contextlib
import json
import logging
import os
import signal
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from epp.app.standalone import EnvoyError, StandaloneOptions, serve_standalone_async
from epp.config import Settings
from epp.config.security_settings import TlsSettings
from epp.config.settings import AccessLogSettings, DiscoverySettings
from epp.endpoints.spec import parse_endpoints
from epp.gateway.standalone.bootstrap import BootstrapOptions, assignment, bootstrap
from tests.certificates import Authority, serial
from tests.director.core import Pool
from tests.e2e.kit import DEFAULT_CONFIG, eventually, free_port, new_client
from tests.envoy.kit import METRICS, MODELS, Server, envoy_binary, running_envoy

ADMIN = {"socket_address": {"address": "127.0.0.1", "port_value": 0}}
BODY = {"model": "m", "prompt": "Hello"}
STREAM = BODY | {"stream": True}
UPGRADE = (
    b"GET /v1/realtime?model=m HTTP/1.1\r\nhost: gateway\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)


class Standalone:
    """A running `epp gateway`, with clients of both ports."""

    def __init__(self, serving, client, admin):
        self.serving = serving
        self.client = client
        self.admin = admin

    async def ask(self, prompt="Hello", **more):
        return await self.client.post("/v1/completions", json=BODY | {"prompt": prompt}, **more)

    async def decisions(self, count):
        async def ended():
            found = (await self.admin.get(f"/debug/decisions?limit={count}")).json()
            return found[::-1] if len(found) == count else []

        return await eventually(ended)

    async def in_flight(self):
        state = (await self.admin.get("/debug/state?index=false")).json()["endpoints"]
        return sum(e["requests"] for e in state)


@contextlib.asynccontextmanager
async def running(settings):
    """`epp gateway` in the running loop; what it does to the process is undone."""
    handlers, level = logging.root.handlers[:], logging.root.level
    started = asyncio.get_running_loop().create_future()
    options = StandaloneOptions(envoy_binary(), 1)
    serving = asyncio.create_task(
        serve_standalone_async(settings, DEFAULT_CONFIG, options, started.set_result)
    )
    try:
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        yield serving, started.result()
    finally:
        while not serving.done():  # the first signal drains, the second stops
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait({serving}, timeout=0.05)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)


@pytest.fixture
def standalone(stack, servers, tmp_path):
    """Starts it in front of servers, with settings by name."""

    async def start(count=2, *, backends=None, **changes):
        backends = await servers(count) if backends is None else backends
        settings = Settings(
            host="127.0.0.1",
            port=0,
            admin_port=free_port(),
            endpoint=parse_endpoints([server.url for server in backends]),
            drain_timeout_s=10.0,
            access_log=AccessLogSettings(file=str(tmp_path / "access.log")),
        )
        serving, urls = await stack.enter_async_context(running(replace(settings, **changes)))
        client = await stack.enter_async_context(new_client(urls.url, verify=False))
        admin = await stack.enter_async_context(new_client(urls.admin_url, verify=False))
        gate = Standalone(serving, client, admin)
        await eventually(lambda: known(gate))
        return backends, gate

    return start


@pytest.fixture
def process(spawn, stack, servers):
    """Starts it as a process in front of one server."""

    async def start():
        [server] = await servers(1)
        ports = ("--port", "0", "--admin-port", str(free_port()), "--concurrency", "1")
        started = await spawn("gateway", "--host", "127.0.0.1", *ports, "--endpoint", server.url)
        await started.url()
        return started

    return start


async def known(gate):
    state = (await gate.admin.get("/debug/state?index=false")).json()["endpoints"]
    return all(e["models"] and e["fresh"] for e in state)


async def test_requests_are_relayed_to_the_pick_and_counted_with_usage(standalone):
    backends, gate = await standalone()
    text = "The same beginning. " * 200
    forged = {"x-gateway-destination-endpoint": "127.0.0.1:1", "x-epp-explain": "1"}

    answers = [await gate.ask(f"{text} {n}", headers=forged) for n in range(4)]
    decisions = await gate.decisions(4)

    assert [a.status_code for a in answers] == [200] * 4
    assert len({a.json()["server"] for a in answers}) == 1
    assert all(a.headers["x-epp-endpoint"] == a.json()["server"] for a in answers)
    assert [d["endpoint"] for d in decisions] == [a.json()["server"] for a in answers]
    assert [d["request_id"] for d in decisions] == [a.headers["x-request-id"] for a in answers]
    assert [(d["reason"], d["completion_tokens"]) for d in decisions] == [("complete", 2)] * 4
    [asked] = [server.asked for server in backends if server.asked]
    assert not set(forged) & set(asked[0].headers)
    assert "x-epp-exchange" not in asked[0].headers
    assert json.loads(asked[0].body)["prompt"] == f"{text} 0"
    assert await gate.in_flight() == 0


async def test_streams_are_relayed_as_they_come_and_end_with_usage(standalone):
    [server], gate = await standalone(1)

    async with gate.client.stream("POST", "/v1/completions", json=STREAM) as answer:
        lines = answer.aiter_lines()
        first = await anext(lines)
        held = await gate.in_flight()
        server.go.set()
        rest = [line async for line in lines if line]
    [decision] = await gate.decisions(1)

    assert json.loads(first.removeprefix("data: "))["n"] == 0
    assert rest[-1] == "data: [DONE]"
    assert held == 1
    assert (decision["reason"], decision["completion_tokens"]) == ("complete", 3)
    assert "first_byte_ms" in decision


async def test_refusals_reach_the_client_and_epps_own_routes_are_served(standalone):
    [server], gate = await standalone(1)

    unknown = await gate.client.post("/v1/completions", json=BODY | {"model": "nobody-serves-it"})
    bad = await gate.client.post("/v1/completions", content=b"{")
    admin = await gate.client.post("/sleep")
    metrics = await gate.client.get("/metrics")
    ready, models = await gate.client.get("/readyz"), await gate.client.get("/v1/models")

    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert bad.status_code == 400
    assert (admin.status_code, metrics.status_code) == (403, 403)
    assert (ready.status_code, models.json()["data"][0]["id"]) == (200, "m")
    assert (await gate.admin.get("/metrics")).status_code == 200
    assert server.asked == []


async def test_a_request_too_many_is_429_as_long_as_a_stream_runs_and_no_longer(standalone):
    [server], gate = await standalone(1, max_inflight_per_endpoint=1)

    async with gate.client.stream("POST", "/v1/completions", json=STREAM) as answer:
        lines = answer.aiter_lines()  # one that nobody holds would be collected, and close the answer
        await anext(lines)
        full = [await gate.ask() for _ in range(3)]
        server.go.set()
        rest = [line async for line in lines if line]
    await gate.decisions(4)
    after = await gate.ask()

    assert [(f.status_code, f.headers["x-llm-d-request-dropped-reason"]) for f in full] == [
        (429, "rejected-saturated")
    ] * 3
    assert full[0].json()["error"]["code"] == "saturated"
    assert full[0].headers["retry-after"] == "1"
    assert rest[-1] == "data: [DONE]"
    assert after.status_code == 200
    assert len(server.asked) == 2


async def test_a_dead_endpoint_is_passed_over_while_nothing_was_sent(standalone):
    backends, gate = await standalone(2)
    await backends[0].__aexit__()

    answers = [await gate.ask(f"{n}") for n in range(4)]

    assert {a.json()["server"] for a in answers} == {backends[1].address}
    await gate.decisions(4)
    assert await gate.in_flight() == 0


async def test_what_nobody_answers_is_told_as_epp_serve_tells_it(standalone):
    [server], gate = await standalone(1, max_request_bytes=1000)

    long = await gate.client.post("/v1/completions", content=b"x" * 2000)
    await server.__aexit__()
    dead = await gate.ask()
    [decision] = await gate.decisions(1)

    assert (long.status_code, long.json()["error"]["code"]) == (413, "payload_too_large")
    assert (dead.status_code, dead.json()["error"]["code"]) == (502, "upstream_connect_failed")
    assert dead.headers["x-llm-d-request-dropped-reason"] == "upstream-connect-failed"
    assert (decision["status"], decision["error"]) == (502, "upstream_connect_failed")


async def test_a_503_is_repeated_at_the_next_endpoint_if_the_request_may_be(standalone):
    backends, gate = await standalone(2)
    text = "The same beginning. " * 200

    holder = (await gate.ask(text)).json()["server"]
    for server in backends:
        server.status = 503 if server.address == holder else 200
    repeated = await gate.ask(text)
    decisions = await gate.decisions(2)

    assert (repeated.status_code, repeated.json()["server"] == holder) == (200, False)
    assert [d["attempts"] for d in decisions] == [1, 2]
    assert decisions[1]["endpoint"] == repeated.json()["server"]


async def test_no_client_makes_envoy_repeat_what_must_not_be(standalone):
    [server], gate = await standalone(1)
    server.status = 503

    answer = await gate.client.post(
        "/v1/files", content=b"x", headers={"x-envoy-retry-on": "retriable-status-codes"}
    )

    assert answer.status_code == 503
    assert [asked.target for asked in server.asked] == ["/v1/files"]


async def test_endpoints_that_come_are_used(standalone, servers, tmp_path):
    first, second = await servers(2)
    file = tmp_path / "endpoints.yaml"
    file.write_text(f"endpoints:\n- {first.url}\n")
    _, gate = await standalone(backends=[], discovery=DiscoverySettings(file=str(file), file_interval_s=0.01))

    before = await gate.ask()
    (tmp_path / "new").write_text(f"endpoints:\n- {second.url}\n")
    (tmp_path / "new").replace(file)
    await eventually(lambda: _served_by(gate, second))

    assert before.json()["server"] == first.address


async def _served_by(gate, server):
    return (await gate.ask()).json().get("server") == server.address


async def test_nobody_to_send_to_is_epps_503_and_no_guess_of_envoys(standalone, tmp_path):
    file = tmp_path / "endpoints.yaml"
    file.write_text("endpoints: []\n")
    found = DiscoverySettings(file=str(file), file_interval_s=0.01)
    _, gate = await standalone(backends=[], discovery=found)

    answer = await gate.ask()

    assert answer.status_code == 503
    assert answer.headers["x-llm-d-request-dropped-reason"] == "rejected-no-endpoints"
    assert answer.json()["error"]["code"] == "no_endpoints"


async def test_a_client_that_leaves_ends_its_request(standalone):
    [server], gate = await standalone(1)
    asking = asyncio.create_task(gate.client.post("/v1/completions", json=STREAM))
    await eventually(lambda: server.live)

    asking.cancel()
    [decision] = await gate.decisions(1)

    assert decision["reason"] == "client_disconnected"
    assert await gate.in_flight() == 0


async def test_a_drain_lets_streams_end(standalone):
    [server], gate = await standalone(1)

    async with gate.client.stream("POST", "/v1/completions", json=STREAM) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        signal.raise_signal(signal.SIGTERM)
        await eventually(lambda: _not_ready(gate))
        server.go.set()
        rest = [line async for line in lines if line]

    assert rest[-1] == "data: [DONE]"
    await gate.serving


async def test_what_is_left_at_the_end_of_a_drain_is_a_shutdown(standalone, tmp_path):
    _, gate = await standalone(1, drain_timeout_s=0.05)

    async with gate.client.stream("POST", "/v1/completions", json=STREAM) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(httpx.TransportError):
            [_ async for _ in lines]
    await gate.serving

    [line] = (tmp_path / "access.log").read_text().splitlines()
    assert json.loads(line)["reason"] == "shutdown"


async def _not_ready(gate):
    return (await gate.admin.get("/readyz")).status_code == 503


async def test_websockets_are_relayed_and_counted(standalone, stack):
    shouting = await asyncio.start_server(_shout, "127.0.0.1", 0)
    stack.callback(shouting.close)
    host, port = shouting.sockets[0].getsockname()
    backend = Server(address=f"{host}:{port}")
    _, gate = await standalone(backends=[backend])

    url = gate.client.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(UPGRADE)
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"hello")
    said = await reader.readexactly(5)
    held = await gate.in_flight()
    writer.close()
    [decision] = await gate.decisions(1)

    assert head.startswith(b"HTTP/1.1 101 ")
    assert (said, held) == (b"HELLO", 1)
    assert (decision["status"], decision["path"]) == (101, "/v1/realtime")
    assert await gate.in_flight() == 0


async def _shout(reader, writer):
    """A model server that knows WebSockets, as far as a relay can tell."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b"upgrade: websocket" in head:
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
        while data := await reader.read(100):
            writer.write(data.upper())
    else:
        page = json.dumps(MODELS).encode() if b"/v1/models" in head else METRICS % 0
        writer.write(
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(page), page)
        )
    writer.close()


async def test_tls_is_spoken_with_the_certificate_given(standalone, tmp_path):
    pair = Authority(tmp_path, "ca").issue()
    _, gate = await standalone(1, tls=TlsSettings(cert=pair.cert, key=pair.key))

    assert (await gate.ask()).status_code == 200
    assert gate.client.base_url.scheme == "https"


async def test_a_certificate_that_changes_is_shown_and_a_faulty_one_is_not(standalone, tmp_path):
    authority = Authority(tmp_path, "ca")
    first, second, used = authority.issue("first"), authority.issue("second"), authority.issue("used")
    used.replace_by(first)
    _, gate = await standalone(1, tls=TlsSettings(cert=used.cert, key=used.key))

    async def shown():
        return await serial(str(gate.client.base_url), authority.client())

    async def files():
        return (await gate.admin.get("/readyz")).json()["detail"]["files"]["tls"]

    before = await shown()
    used.break_key()
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(files(), f"{used.cert} with {used.key}: not a certificate and a key in PEM"))
    broken = await shown()
    used.replace_by(second)
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(shown(), second.serial))

    assert (before, broken) == (first.serial, first.serial)
    assert await files() == "in use"


async def _is(found, value):
    return await found == value


async def test_envoy_does_not_outlive_epp(process):
    epp = await process()
    children = _children(epp.process.pid)

    epp.process.kill()
    await epp.ended()

    assert len(children) == 1
    await eventually(lambda: not Path(f"/proc/{children[0]}").exists())


async def test_epp_ends_when_envoy_does(process):
    epp = await process()

    os.kill(_children(epp.process.pid)[0], signal.SIGKILL)

    assert await epp.ended() == 1
    assert "epp: Envoy ended with status -9" in epp.stderr


def _children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_port_that_is_taken_is_an_error(servers, standalone):
    [server] = await servers(1)

    with pytest.raises(EnvoyError, match="Envoy ended with status"):
        await standalone(backends=[server], port=int(server.address.rpartition(":")[2]))


async def test_without_epp_the_fallback_policy_chooses(servers, stack, tmp_path):
    backends = await servers(2)
    pool = Pool(n=0)
    pool.core.upkeep.sync_endpoints(parse_endpoints([server.url for server in backends]), 1.0)
    options = BootstrapOptions("127.0.0.1", 0, str(tmp_path), 1 << 20, [])
    (tmp_path / "endpoints.json").write_text(json.dumps(assignment(pool.core.table.pool.endpoints)))
    config = bootstrap(options) | {"admin": {"address": ADMIN}}
    envoy = await stack.enter_async_context(running_envoy(tmp_path, config))

    answers = [await envoy.client.post("/v1/completions", json=BODY) for _ in range(4)]

    assert [a.status_code for a in answers] == [200] * 4
    assert [len(server.asked) for server in backends] == [2, 2]
