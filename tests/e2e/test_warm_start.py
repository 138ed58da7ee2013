"""A router that is ended and started again predicts at once what its servers still hold."""

import signal

import pytest

from tests.e2e.kit import LONG_TEXT, chat, eventually

LOOPBACK = ("--host", "127.0.0.1", "--port", "0")


@pytest.fixture
def start(spawn, connect, tmp_path):
    """Starts the router in front of servers, with a directory for its state."""

    async def run(*servers, state=None, **more):
        endpoints = [word for server in servers for word in ("--endpoint", server.url)]
        arguments = [word for name, value in more.items() for word in (f"--{name.replace('_', '-')}", value)]
        folder = str(tmp_path / "state") if state is None else state
        process = await spawn("serve", *LOOPBACK, *endpoints, "--state-dir", folder, *arguments)
        return process, await connect(await process.url())

    return run


async def predicted(client):
    """Tokens that the GPU tier of the last request's endpoint was predicted to hold."""

    async def ended():
        return (await client.get("/debug/decisions?limit=1")).json()

    [found] = await eventually(ended)
    candidate = found["receipt"]["candidates"][0]
    assert candidate["endpoint"] == found["receipt"]["picked"]
    return candidate["predicted_hit_tokens"]["gpu"]


async def sample(client, name):
    page = (await client.get("/metrics")).text
    return next((float(line.split()[-1]) for line in page.splitlines() if line.startswith(name + " ")), None)


async def test_the_first_request_after_a_restart_goes_where_its_prefix_is(fleet, start):
    servers = await fleet(3)
    first, client = await start(*servers)
    answer = await client.post("/v1/chat/completions", json=chat(LONG_TEXT))
    home = answer.headers["x-epp-endpoint"]
    first.signal(signal.SIGTERM)
    assert await first.ended() == 0

    _, client = await start(*servers)
    answer = await client.post("/v1/chat/completions", json=chat(LONG_TEXT))
    cached = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert answer.headers["x-epp-endpoint"] == home
    assert cached > 0.9 * answer.json()["usage"]["prompt_tokens"]
    assert await predicted(client) > 0.9 * cached
    assert await sample(client, "epp_state_loaded_entries") >= 70
    assert await sample(client, "epp_state_loaded_age_seconds") < 60


async def test_a_router_that_was_killed_leaves_what_it_saved_last(fleet, start):
    servers = await fleet(2)
    first, client = await start(*servers, state_interval="1s")
    answer = await client.post("/v1/chat/completions", json=chat(LONG_TEXT))
    home = answer.headers["x-epp-endpoint"]
    saved_before = await sample(client, 'epp_state_saves_total{result="ok"}')
    await eventually(lambda: more_saves(client, saved_before + 1))
    first.signal(signal.SIGKILL)
    await first.ended()

    _, client = await start(*servers)
    answer = await client.post("/v1/chat/completions", json=chat(LONG_TEXT))
    assert answer.headers["x-epp-endpoint"] == home
    assert await predicted(client) > 0


async def more_saves(client, count):
    return await sample(client, 'epp_state_saves_total{result="ok"}') > count


async def test_a_server_that_was_restarted_meanwhile_is_predicted_nothing(fleet, start):
    [server] = await fleet(1)
    first, client = await start(server)
    await client.post("/v1/chat/completions", json=chat(LONG_TEXT))
    first.signal(signal.SIGTERM)
    assert await first.ended() == 0
    await server.stop()
    await server.start()

    second, client = await start(server)
    await client.post("/v1/chat/completions", json=chat(LONG_TEXT))
    assert await predicted(client) == 0
    assert any("its engine was restarted" in line["message"] for line in second.log())


async def test_a_state_that_cannot_be_saved_does_not_keep_it_from_serving(fleet, start):
    servers = await fleet(1)
    process, client = await start(*servers, state="/proc/nowhere")
    assert (await client.post("/v1/chat/completions", json=chat("Hello"))).status_code == 200
    process.signal(signal.SIGTERM)
    assert await process.ended() == 0
    assert any("the state cannot be saved in /proc/nowhere" in line["message"] for line in process.log())
