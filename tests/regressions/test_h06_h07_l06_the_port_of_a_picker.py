"""H06 (GIE p1402, p788): gRPC health by service name. H07 (GIE p2385): TLS without ALPN h2 was refused.
L06 (AX p2364): gRPC's limit of 4 MiB a message.
"""

import ssl

import grpc
import grpc.aio
import pytest

from epp.config.gateway_settings import GrpcSettings
from tests.e2e.conftest import route as plain_route
from tests.e2e.kit import free_port
from tests.gateway.wire import M, request_body, request_headers, told

__all__ = ["plain_route"]

PICKER = "envoy.service.ext_proc.v3.ExternalProcessor"


@pytest.fixture
async def picker(plain_route, recorder):
    """A picker with one ready endpoint; returns its port."""

    async def start(**grpc_settings):
        port = free_port()
        router = await plain_route(await recorder(), grpc=GrpcSettings(port=port, **grpc_settings))
        await router.know("m")
        return port

    return start


async def health(port, service):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        request = M.HealthCheckRequest(service=service).SerializeToString()
        return M.HealthCheckResponse.FromString(
            await channel.unary_unary("/grpc.health.v1.Health/Check")(request)
        )


@pytest.mark.parametrize("service", ["", PICKER])
async def test_health_serves_without_a_name_and_under_the_pickers(picker, service):
    health_port = free_port()
    await picker(health_port=health_port)

    assert (await health(health_port, service)).status == 1


async def test_an_unknown_name_is_not_found(picker):
    port = await picker(secure=False)

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await health(port, "nobody")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_tls_agrees_to_h2(picker):
    port = await picker()
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])

    import asyncio

    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    agreed = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.close()

    assert agreed == "h2"
    assert reader is not None


async def test_a_message_of_five_mebibytes_is_taken(picker):
    port = await picker(secure=False)
    body = b'{"model": "m", "prompt": "%s"}' % (b"x" * (5 << 20))

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(f"/{PICKER}/Process")()
        await call.write(request_headers(mode="BUFFERED"))
        await call.read()
        await call.write(request_body(body, end=True))
        answer = told(await call.read())

    assert answer.metadata.startswith("127.0.0.1:")
