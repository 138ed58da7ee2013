"""A process that has no descriptors left refuses, blames no endpoint, and serves again when there are some."""

import asyncio
import contextlib
import resource
import signal
import sys

import pytest

from tests.app.endpoint import ModelEndpoint
from tests.e2e.kit import ROOT, eventually, new_client
from tests.proxy.harness import RawClient, post

LIMIT = 64
LAUNCHER = f"""\
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
from epp.cli import main
sys.exit(main(sys.argv[1:]))
"""


@contextlib.asynccontextmanager
async def starved(endpoint, tmp_path):
    """A router that may open few files, and its port."""
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", LAUNCHER, "serve", "--host", "127.0.0.1", "--port", "0", "--endpoint", endpoint.url,
            cwd=ROOT, stdout=asyncio.subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
    try:
        lines = await eventually(
            lambda: [line for line in (tmp_path / "log").read_text().splitlines() if '"url"' in line]
        )
        yield int(lines[0].partition('"url":"http://127.0.0.1:')[2].partition('"')[0])
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def asked(client):
    """The status of one request; 0 when the connection was closed instead."""
    try:
        await client.send(post(b'{"model":"m","prompt":"x"}', path=b"/v1/completions"))
        return (await client.read_response()).status
    except (ConnectionError, asyncio.IncompleteReadError):
        return 0


@pytest.mark.e2e
async def test_without_descriptors_new_connections_are_closed_and_requests_are_answered(tmp_path):
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 4 * LIMIT
    async with ModelEndpoint() as endpoint, starved(endpoint, tmp_path) as port:
        async with new_client(f"http://127.0.0.1:{port}") as http:
            await eventually(lambda: _ready(http))
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(await RawClient.connect(port)) for _ in range(LIMIT)]
            statuses = [await asked(client) for client in clients]
        async with new_client(f"http://127.0.0.1:{port}") as http:
            await eventually(lambda: _ready(http))
            again = await http.post("/v1/completions", json={"model": "m", "prompt": "x"})
            page = (await http.get("/metrics")).text

    # 200 on a connection to the endpoint that was kept, or that a scrape has just left.
    assert 0 in statuses
    assert set(statuses) <= {0, 200, 503}
    assert LIMIT - statuses.count(0) > LIMIT // 4
    assert again.status_code == 200
    assert [
        line
        for line in page.splitlines()
        if line.startswith("epp_ejections_total{") and not line.endswith(" 0")
    ] == []


async def _ready(http):
    with contextlib.suppress(Exception):
        return (await http.get("/readyz")).status_code == 200
    return False
