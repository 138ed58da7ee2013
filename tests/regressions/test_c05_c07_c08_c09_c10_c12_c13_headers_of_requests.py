"""Headers of clients on their way to endpoints.

C05 (PS i201): host. C07 (PS i472, SG p34108): request id. C08 (vLLM p10968): its size. C09 (agentgateway p3144): routing
headers of clients. C10 (AG p2053): half a credential. C12 (AX p2311): bytes outside ASCII. C13 (LR p1514): trace context.
"""

import pytest

from epp.config.settings import ApiKeySettings
from epp.security import parse_keys
from tests.regressions.kit import raw_client

BODY = b'{"model":"m","prompt":"a"}'
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def request(*fields, host=b"public.example"):
    lines = [b"POST /v1/completions HTTP/1.1", b"Host: " + host, b"Content-Length: %d" % len(BODY), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + BODY


async def asked(stage, *fields):
    """What the client and the endpoint got."""
    endpoint, router = stage
    before = len(endpoint.relayed())
    async with await raw_client(router) as client:
        await client.send(request(*fields))
        response = await client.read_response()
    assert response.status == 200
    [got] = endpoint.relayed()[before:]
    return response, got


async def test_c05_the_host_is_the_endpoints_and_the_rest_passes(stage):
    endpoint, _ = stage
    cookie = b"c" * 8000
    _, got = await asked(stage, b"Cookie: " + cookie, b"X-Any: 1", b"Accept: */*")

    assert got.values(b"host") == [endpoint.address.encode()]
    assert got.values(b"x-forwarded-host") == [b"public.example"]
    assert (got.values(b"cookie"), got.values(b"x-any"), got.values(b"accept")) == (
        [cookie],
        [b"1"],
        [b"*/*"],
    )


async def test_c07_one_request_id_everywhere(stage, tmp_path):
    _, router = stage
    response, got = await asked(stage, b"X-Request-Id: abc")
    made, other = await asked(stage)
    decisions = await router.decisions(2)

    assert (response.value(b"x-request-id"), got.values(b"x-request-id")) == (b"abc", [b"abc"])
    assert len(made.value(b"x-request-id")) == 32
    assert other.values(b"x-request-id") == [made.value(b"x-request-id")]
    assert [d["request_id"].encode() for d in decisions] == [b"abc", made.value(b"x-request-id")]


@pytest.mark.parametrize(
    "value", [b"x" * 129, b"x" * 20_000, b"", b"a b", b"a\tb", b"\xe5", b"\xe5\xbc\xa0"], ids=range(7)
)
async def test_c08_an_id_that_is_too_long_or_not_printable_is_replaced(stage, value):
    response, got = await asked(stage, b"X-Request-Id: " + value)

    assert response.value(b"x-request-id") != value
    assert len(response.value(b"x-request-id")) == 32
    assert got.values(b"x-request-id") == [response.value(b"x-request-id")]


async def test_c09_no_client_chooses_an_endpoint(stage):
    _, got = await asked(
        stage,
        b"x-gateway-destination-endpoint: 10.9.9.9:1",
        b"X-Gateway-Destination-Endpoint: 10.9.9.9:2",
        b"x-gateway-destination-endpoint-served: 10.9.9.9:3",
        b"x-prefiller-host-port: 10.9.9.9:4",
        b"X-LLM-D-Anything: 1",
        b"x-epp-endpoint: 10.9.9.9:5",
    )

    assert [name for name, value in got.raw_headers if b"10.9.9.9" in value or b"llm-d" in name.lower()] == []


@pytest.mark.parametrize("value", [b"bearer", b"Bearer ", b"", b"Basic", b": :"])
async def test_c10_half_a_credential_is_no_fault(stage, value):
    _, got = await asked(stage, b"Authorization: " + value)

    assert got.values(b"authorization") == [value.lstrip()]


async def test_c10_with_keys_half_a_credential_is_401(recorder, route):
    endpoint = await recorder()
    router = await route(endpoint, api_keys=ApiKeySettings(key=parse_keys("k")))
    statuses = []
    for value in (b"bearer", b"Bearer ", b"", b"Basic k", b"Bearer k"):
        async with await raw_client(router) as client:
            await client.send(request(b"Authorization: " + value))
            statuses.append((await client.read_response()).status)

    assert statuses == [401, 401, 401, 401, 200]


async def test_c12_bytes_outside_ascii_pass_as_they_are(stage):
    _, got = await asked(stage, b"X-User: \xe5\xbc\xa0", b"X-Latin: \xfc")

    assert (got.values(b"x-user"), got.values(b"x-latin")) == ([b"\xe5\xbc\xa0"], [b"\xfc"])


async def test_c13_the_trace_context_is_continued(stage):
    _, got = await asked(stage, b"traceparent: " + TRACE, b"tracestate: a=1", b"baggage: k=v")

    assert got.values(b"traceparent") == [TRACE]
    assert (got.values(b"tracestate"), got.values(b"baggage")) == ([b"a=1"], [b"k=v"])
