"""T9: 40 ms stalls between events, from Nagle's algorithm and delayed acknowledgements."""

import socket

from epp.http.connection import Connection
from epp.proxy.protocol import HttpProtocol
from tests.regressions.kit import post, raw_client


async def test_both_sides_send_small_pieces_at_once(theatre, monkeypatch):
    endpoint, router = theatre
    sockets = []
    for kind in (HttpProtocol, Connection):
        plain = kind.connection_made

        def made(self, transport, plain=plain):
            sockets.append(transport.get_extra_info("socket"))
            plain(self, transport)

        monkeypatch.setattr(kind, "connection_made", made)
    async with await raw_client(router) as client:
        await client.send(post(b'{"model":"m","stream":true}'))
        call = await endpoint.call()
        options = [found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for found in sockets]
        await call.stream(b"data: 1\n\n")
        await call.end()
        await client.read_response()

    assert len(options) >= 2
    assert 0 not in options
