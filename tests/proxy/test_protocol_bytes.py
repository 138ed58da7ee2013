"""The protocol on a transport in memory: bytes in, bytes out, cut at every offset."""

import asyncio
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.config import Config

from epp.proxy.front_state import FrontState
from epp.proxy.protocol import HttpProtocol
from epp.proxy.settings import ProxySettings
from tests.proxy.harness import eventually


class MemoryTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, protocol):
        super().__init__()
        self.protocol = protocol
        self.written = bytearray()
        self.closing = False

    def get_extra_info(self, name, default=None):
        return default

    def write(self, data):
        self.written += data

    def get_write_buffer_size(self):
        return 0

    def can_write_eof(self):
        return False

    def pause_reading(self):
        pass

    resume_reading = pause_reading

    def is_closing(self):
        return self.closing

    def close(self):
        if not self.closing:
            self.closing = True
            self.protocol.connection_lost(None)

    abort = close


async def echo(scope, receive, send):
    """Answers with method, path, a header and the body."""
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    text = b"%b %b %b %b" % (
        scope["method"].encode(),
        scope["raw_path"],
        dict(scope["headers"])[b"host"],
        body,
    )
    headers = [(b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def connect(limits=None):
    config = Config(echo, interface="asgi3", log_config=None, proxy_headers=False, ws="none", lifespan="off")
    config.load()
    state = FrontState(limits or ProxySettings(), lambda: b"made-here", asyncio.Event())
    protocol = HttpProtocol(config, state, {}, asyncio.get_running_loop())
    transport = MemoryTransport(protocol)
    protocol.connection_made(transport)
    return protocol, transport


async def settle(protocol):
    """Let every request that is complete be answered."""
    await eventually(lambda: not protocol.in_service() or protocol._serving.more_body)


async def answers(pieces, limits=None):
    """Status and body of each answer to the bytes in `pieces`."""
    protocol, transport = connect(limits)
    for piece in pieces:
        protocol.data_received(piece)
        await settle(protocol)
    transport.close()
    for task in list(protocol.server_state.tasks):
        task.cancel()
    wire = bytes(transport.written)
    found = []
    while wire:
        head, _, rest = wire.partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        found.append((int(head[9:12]), rest[:length]))
        wire = rest[length:]
    return found


WHOLE = (
    b"POST /a?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
    b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n"
    b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n"
    b"\r\n"
    b"POST /d HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 1\r\n\r\n1"
)
EXPECTED = [(200, b"POST /a h hello"), (200, b"GET /b h "), (200, b"POST /c h abcde"), (200, b"POST /d h 1")]


async def test_requests_cut_at_every_offset_get_the_same_answers():
    for cut in range(len(WHOLE) + 1):
        assert await answers([WHOLE[:cut], WHOLE[cut:]]) == EXPECTED, cut


async def test_requests_byte_by_byte_get_the_same_answers():
    assert await answers([WHOLE[i : i + 1] for i in range(len(WHOLE))]) == EXPECTED


@given(cuts=st.sets(st.integers(0, len(WHOLE)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_requests_cut_anywhere_get_the_same_answers(cuts):
    edges = [0, *sorted(cuts), len(WHOLE)]
    pieces = [WHOLE[a:b] for a, b in itertools.pairwise(edges)]
    assert asyncio.run(answers(pieces)) == EXPECTED


FAULTS = {
    b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n": [200, 400],
    b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nPOST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n": [
        200,
        400,
    ],
    b"GET /a HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 200 + b"\r\n\r\n": [431],
}


@pytest.mark.parametrize(("wire", "statuses"), FAULTS.items(), ids=["two hosts", "bad chunk", "large head"])
async def test_faults_cut_at_every_offset_get_the_same_answers(wire, statuses):
    for cut in range(len(wire) + 1):
        got = await answers([wire[:cut], wire[cut:]], ProxySettings(max_head_bytes=128))
        assert [status for status, _ in got] == statuses, cut


async def test_a_broken_request_queued_behind_another_is_taken_out_and_refused_last():
    first = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n1"
    broken = b"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    got = await answers([first + first + broken])
    assert [status for status, _ in got] == [200, 200, 400]


async def test_a_timeout_while_a_request_is_received_behind_one_in_service_does_not_run():
    protocol, transport = connect()
    protocol.data_received(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HT")
    assert protocol._timer is None
    await settle(protocol)
    assert protocol._timer is not None
    transport.close()
    assert protocol._timer is None


async def test_a_request_that_comes_while_another_is_in_service_waits_unparsed():
    protocol, transport = connect()
    protocol.data_received(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
    protocol.data_received(b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n")
    assert len(protocol._held) == 28
    assert not protocol.flow.read_paused
    await settle(protocol)
    assert protocol._held == b""
    assert transport.written.endswith(b"GET /b h ")
    transport.close()


async def test_no_timer_is_armed_for_a_request_that_comes_in_one_piece():
    protocol, transport = connect()
    protocol.data_received(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
    assert protocol._timer is None
    await settle(protocol)
    transport.close()


async def test_the_keep_alive_timer_runs_only_while_the_connection_is_idle():
    protocol, transport = connect()
    assert protocol.timeout_keep_alive_task is not None
    protocol.data_received(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\n")
    assert protocol.timeout_keep_alive_task is None
    await settle(protocol)
    protocol.data_received(b"Host: h\r\n\r\n")
    assert protocol.timeout_keep_alive_task is None
    await settle(protocol)
    assert protocol.timeout_keep_alive_task is not None
    transport.close()
    assert protocol.timeout_keep_alive_task is None
