"""A DNS server on loopback, UDP and TCP, that tells what a test wants."""

import asyncio
import contextlib
import socket
import struct

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset


class DnsServer:
    """Answers from `records`, by (name with a final dot, type); a name without any is NXDOMAIN.

    `failing` answer SERVFAIL, `truncated` are cut over UDP; both hold (name, type). `asked` are the questions.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self.ttl_s = 30
        self.failing: set[tuple[str, str]] = set()
        self.truncated: set[tuple[str, str]] = set()
        self.asked: list[tuple[str, str, str]] = []
        self.port = 0

    def answer(self, wire: bytes, transport: str) -> bytes:
        query = dns.message.from_wire(wire)
        question = query.question[0]
        key = (question.name.to_text().lower(), dns.rdatatype.to_text(question.rdtype))
        self.asked.append((transport, *key))
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        if key in self.failing:
            response.set_rcode(dns.rcode.SERVFAIL)
        elif key in self.truncated and transport == "udp":
            response.flags |= dns.flags.TC
        elif key in self.records:
            response.answer.append(
                dns.rrset.from_text_list(question.name, self.ttl_s, "IN", key[1], self.records[key])
            )
        elif key[0] not in {name for name, _ in self.records}:
            response.set_rcode(dns.rcode.NXDOMAIN)
        return response.to_wire()


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self.server = server

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(self.server.answer(data, "udp"), addr)


@contextlib.asynccontextmanager
async def dns_server():
    """A server on a free port of 127.0.0.1."""
    server = DnsServer()
    loop = asyncio.get_running_loop()

    async def on_tcp(reader, writer):
        size = struct.unpack("!H", await reader.readexactly(2))[0]
        reply = server.answer(await reader.readexactly(size), "tcp")
        writer.write(struct.pack("!H", len(reply)) + reply)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    tcp = await asyncio.start_server(on_tcp, "127.0.0.1", 0)
    server.port = tcp.sockets[0].getsockname()[1]
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind(("127.0.0.1", server.port))
    udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(server), sock=bound)
    try:
        yield server
    finally:
        udp.close()
        tcp.close()
        await tcp.wait_closed()
