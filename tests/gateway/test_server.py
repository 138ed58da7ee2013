"""The gRPC servers on real sockets, with gRPC's own client."""

import asyncio
import contextlib
import datetime as dt
import socket
import ssl

import grpc
import grpc.aio
import pytest

from epp.director import EndReason
from epp.gateway.certificates import CertificateError, read_key_pair, self_signed
from epp.gateway.messages import PICKER_SERVICE
from epp.gateway.server import GatewayServer, Listeners
from tests.e2e.kit import eventually
from tests.gateway.stream import BODY, CODEC, Stage
from tests.gateway.wire import M, request_body, request_headers, response_headers, told

PROCESS = f"/{PICKER_SERVICE}/Process"
CHECK = "/grpc.health.v1.Health/Check"


@pytest.fixture
async def serve():
    """Starts a server for a stage; plain text unless a key pair is given."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(stage, *, ready=lambda: True, pair=None, health=True, port=0):
            listeners = Listeners(f"127.0.0.1:{port}", "127.0.0.1:0" if health else None)
            server = GatewayServer(stage.around, listeners, ready, pair)
            await server.start()
            stack.push_async_callback(server.stop, 0.0)
            return server

        yield start


@contextlib.asynccontextmanager
async def channel_to(port, credentials=None):
    target = f"127.0.0.1:{port}"
    channel = (
        grpc.aio.insecure_channel(target)
        if credentials is None
        else grpc.aio.secure_channel(target, credentials, (("grpc.ssl_target_name_override", "localhost"),))
    )
    async with channel:
        yield channel


def process(channel):
    """One stream: bytes out, bytes in."""
    return channel.stream_stream(PROCESS)()


async def check(port, service, credentials=None):
    async with channel_to(port, credentials) as channel:
        request = M.HealthCheckRequest(service=service).SerializeToString()
        answer = await channel.unary_unary(CHECK)(request)
        return M.HealthCheckResponse.FromString(answer).status


async def picked(channel):
    """The answers to one whole request."""
    call = process(channel)
    await call.write(request_headers())
    await call.write(request_body(BODY, end=True))
    return call, [told(await call.read()) for _ in range(2)]


async def test_a_stream_ends_with_ok_as_soon_as_nothing_more_is_wanted(serve):
    stage = Stage(n=1)
    server = await serve(stage)

    async with channel_to(server.port) as channel:
        call, answers = await picked(channel)
        await call.write(response_headers())
        head = told(await call.read())
        code = await call.code()

    assert [a.kind for a in answers] == ["request_headers", "request_body"]
    assert head.headers["x-epp-endpoint"] == b"10.0.0.1:8000"
    assert code is grpc.StatusCode.OK
    assert [r.reason for r in stage.records] == [EndReason.COMPLETE]


async def test_the_gateway_may_end_a_stream_at_any_time(serve):
    stage = Stage(n=1)
    server = await serve(stage)

    async with channel_to(server.port) as channel:
        before_pick = process(channel)
        await before_pick.write(request_headers())
        await before_pick.done_writing()
        first = [await before_pick.read(), await before_pick.code()]
        after_pick, _ = await picked(channel)
        await after_pick.done_writing()
        second = [await after_pick.read(), await after_pick.code()]
        cancelled, _ = await picked(channel)
        cancelled.cancel()
        await eventually(lambda: len(stage.records) == 3)

    assert first == second == [b"", grpc.StatusCode.OK]
    assert [r.reason for r in stage.records] == [
        EndReason.CLIENT_DISCONNECTED,
        EndReason.UNOBSERVED,
        EndReason.UNOBSERVED,
    ]
    assert stage.around.active == 0


async def test_a_message_that_is_none_ends_only_its_stream(serve):
    server = await serve(Stage(n=1))

    async with channel_to(server.port) as channel:
        broken, (good, _) = process(channel), await picked(channel)
        await broken.write(b"\xff\xff\xff")
        code = await broken.code()
        await good.write(response_headers())
        answer = told(await good.read())

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert answer.kind == "response_headers"


async def test_a_body_that_does_not_come_in_time_is_408(serve):
    stage = Stage(n=1, options={"limits": {"body_timeout_s": 0.05}})
    server = await serve(stage)

    async with channel_to(server.port) as channel:
        call = process(channel)
        await call.write(request_headers())
        answer = told(await call.read())
        code = await call.code()

    assert answer.status == 408
    assert code is grpc.StatusCode.OK


class SlowGateway:
    """A stream that has all of a request, and takes each answer after the time for the body is over."""

    def __init__(self, *messages):
        self.messages = [CODEC.decode(message) for message in messages]
        self.taken = []

    async def read(self):
        return self.messages.pop(0) if self.messages else grpc.aio.EOF

    async def write(self, message):
        await asyncio.sleep(0.02)
        self.taken.append(message)


async def test_the_time_for_the_body_does_not_cut_an_answer_that_is_being_written():
    stage = Stage(n=1, options={"limits": {"body_timeout_s": 0.01}})
    body = b'{"model": "m", "prompt": "%s"}' % (b"x" * 200_000)
    gateway = SlowGateway(request_headers(), request_body(body, end=True))

    await GatewayServer(stage.around, Listeners(""), lambda: True)._process(None, gateway)

    answers = [told(message) for message in gateway.taken]
    assert answers[0].metadata == "10.0.0.1:8000"
    assert answers[-1].piece[1]
    assert b"".join(answer.piece[0] for answer in answers[1:]) == body


async def test_the_time_for_the_body_does_not_bound_the_answer(serve):
    stage = Stage(n=1, options={"limits": {"body_timeout_s": 0.2}})
    server = await serve(stage)

    async with channel_to(server.port) as channel:
        call, _ = await picked(channel)
        await asyncio.sleep(0.3)
        await call.write(response_headers())
        answer = told(await call.read())

    assert answer.kind == "response_headers"


async def test_a_message_may_be_as_long_as_a_body(serve):
    stage = Stage(n=1, options={"limits": {"max_body_bytes": 6 << 20}})
    server = await serve(stage)
    body = b'{"model": "m", "prompt": "%s"}' % (b"x" * (5 << 20))

    async with channel_to(server.port) as channel:
        call = process(channel)
        await call.write(request_headers(mode="BUFFERED"))
        await call.read()
        await call.write(request_body(body, end=True))
        answer = told(await call.read())

    assert answer.metadata == "10.0.0.1:8000"


async def test_hundreds_of_streams_may_be_open_at_a_time(serve):
    stage = Stage(n=1, options={"limits": {"body_timeout_s": 60.0}})
    server = await serve(stage)

    async with channel_to(server.port) as channel:
        calls = [process(channel) for _ in range(1100)]
        await asyncio.gather(*(call.write(request_headers()) for call in calls))
        await eventually(lambda: stage.around.active == 1100)
        await asyncio.gather(*(call.write(request_body(BODY, end=True)) for call in calls))
        answers = await asyncio.gather(*(call.read() for call in calls))

    assert {told(answer).metadata for answer in answers} == {"10.0.0.1:8000"}


@pytest.mark.parametrize("service", ["", "readiness", "inference-extension", PICKER_SERVICE])
@pytest.mark.parametrize("ready", [True, False])
async def test_health_tells_readiness_on_both_ports(serve, service, ready):
    server = await serve(Stage(n=1), ready=lambda: ready)

    found = [await check(port, service) for port in (server.port, server.health_port)]

    assert found == [1 if ready else 2] * 2


async def test_liveness_does_not_depend_on_readiness(serve):
    server = await serve(Stage(n=1), ready=lambda: False)
    server.begin_drain()

    assert await check(server.health_port, "liveness") == 1


async def test_an_unknown_service_is_not_found(serve):
    server = await serve(Stage(n=1))

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await check(server.health_port, "somebody")

    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_check_that_is_none_is_refused(serve):
    server = await serve(Stage(n=1))

    async with channel_to(server.port) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(CHECK)(b"\xff")

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_drain_fails_health_at_once_and_waits_for_what_is_open(serve, monkeypatch):
    monkeypatch.setattr("epp.gateway.server._QUIET_S", 0.01)
    stage = Stage(n=1)
    server = await serve(stage)

    async with channel_to(server.port) as channel:
        call, _ = await picked(channel)
        draining = asyncio.create_task(server.drain(10.0))
        await asyncio.sleep(0)
        health = await check(server.health_port, "")
        late, _ = await picked(channel)
        assert not draining.done()
        for open_call in (call, late):
            await open_call.write(response_headers())
            await open_call.read()
        await draining

    assert health == 2
    assert [r.reason for r in stage.records] == [EndReason.COMPLETE] * 2


async def test_a_drain_ends_in_time_and_stop_cuts_what_is_left(serve):
    stage = Stage(n=1)
    server = await serve(stage)

    async with channel_to(server.port) as channel:
        call = process(channel)
        await call.write(request_headers())
        await eventually(lambda: stage.around.active)
        await server.drain(0.01)
        await server.stop(0.0)
        code = await call.code()

    assert code is not grpc.StatusCode.OK
    assert [r.reason for r in stage.records] == [EndReason.SHUTDOWN]


async def test_a_port_that_is_taken_is_named(serve):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError) as refused:
            await serve(Stage(n=1), port=port)

    assert refused.value.filename == f"127.0.0.1:{port}"


async def test_health_needs_no_port_of_its_own(serve):
    server = await serve(Stage(n=1), health=False)

    assert server.health_port == 0
    assert await check(server.port, "") == 1


# TLS.


NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def shown(port, protocols=("h2",)):
    """The certificate that a port shows, and the protocol it agrees to."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as tls:
        return ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True)), tls.selected_alpn_protocol()


async def test_a_port_with_a_certificate_speaks_h2_over_tls(serve):
    pair = self_signed(NOW)
    server = await serve(Stage(n=1), pair=pair)

    certificate, protocol = await asyncio.to_thread(shown, server.port)
    credentials = grpc.ssl_channel_credentials(pair.certificates)
    async with channel_to(server.port, credentials) as channel:
        _, answers = await picked(channel)

    assert protocol == "h2"
    assert certificate.strip() == pair.certificates.decode().strip()
    assert answers[0].metadata == "10.0.0.1:8000"
    assert await check(server.port, "", credentials) == 1


async def test_health_alone_stays_in_plain_text(serve):
    server = await serve(Stage(n=1), pair=self_signed(NOW))

    assert await check(server.health_port, "") == 1


async def test_another_certificate_is_shown_from_the_next_connection_on(serve):
    first, second = self_signed(NOW), self_signed(NOW)
    server = await serve(Stage(n=1), pair=first)

    before = await asyncio.to_thread(shown, server.port)
    await server.use_key_pair(second)
    after = await asyncio.to_thread(shown, server.port)
    again = await asyncio.to_thread(shown, server.port)

    assert before[0].strip() == first.certificates.decode().strip()
    assert after[0].strip() == again[0].strip() == second.certificates.decode().strip()


async def test_a_plain_port_has_no_certificate_to_change(serve):
    server = await serve(Stage(n=1))

    await server.use_key_pair(self_signed(NOW))

    assert await check(server.port, "") == 1


def files(folder, pair, *, cert=None, key=None):
    cert_file, key_file = folder / "tls.crt", folder / "tls.key"
    cert_file.write_bytes(pair.certificates if cert is None else cert)
    key_file.write_bytes(pair.key if key is None else key)
    return str(cert_file), str(key_file)


def test_a_pair_is_read_from_files(tmp_path):
    pair = self_signed(NOW)

    assert read_key_pair(*files(tmp_path, pair)) == pair


def test_faulty_files_are_named(tmp_path):
    pair, other = self_signed(NOW), self_signed(NOW)
    cases = {
        "tls.crt: no certificate in PEM": files(tmp_path, pair, cert=b"nothing"),
    }
    for text, (cert, key) in cases.items():
        with pytest.raises(CertificateError, match=text):
            read_key_pair(cert, key)
    with pytest.raises(CertificateError, match=r"tls\.key: no private key in PEM"):
        read_key_pair(*files(tmp_path, pair, key=b"nothing"))
    with pytest.raises(CertificateError, match="do not belong together"):
        read_key_pair(*files(tmp_path, pair, key=other.key))
    with pytest.raises(CertificateError, match="none: No such file"):
        read_key_pair(str(tmp_path / "none"), str(tmp_path / "tls.key"))


def test_a_key_with_a_passphrase_is_refused(tmp_path):
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    pair = self_signed(NOW)
    locked = load_pem_private_key(pair.key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )

    with pytest.raises(CertificateError, match="without a passphrase"):
        read_key_pair(*files(tmp_path, pair, key=locked))
