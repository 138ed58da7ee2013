"""K03 (AX p2283): an idle stream blocked the end. K05 (AG i621): an exchange split over two instances."""

import asyncio
import signal

import grpc
import grpc.aio

from epp.config.gateway_settings import GrpcSettings
from epp.director import EndReason
from tests.e2e.kit import free_port
from tests.gateway.stream import BODY, Stage
from tests.gateway.wire import request_body, request_headers, response_headers

PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"


async def test_an_idle_stream_does_not_outlast_the_drain(plain_route, recorder):
    port = free_port()
    grpc_settings = GrpcSettings(port=port, secure=False, response="full")
    router = await plain_route(await recorder(), grpc=grpc_settings, drain_timeout_s=0.2)
    await router.know("m")

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(PROCESS)()
        await call.write(request_headers())
        await call.write(request_body(BODY, end=True))
        await call.read()
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(router.serving, 10)


def test_an_answer_that_comes_to_another_instance_needs_nothing_of_the_first():
    asked, answered = Stage(n=1), Stage(n=1)
    request = asked.stream()
    request.say(request_headers(), request_body(BODY, end=True))

    [answer] = answered.stream().say(response_headers())
    request.close()

    assert (answer.kind, answer.headers) == ("response_headers", {})
    assert [r.reason for r in asked.records] == [EndReason.UNOBSERVED]
    assert answered.records == []
