"""Keys of clients and addresses behind proxies, as bytes through the whole front door."""

import json

import pytest

from epp.http import Credentials
from epp.security import KeyGate, KeyRing, TrustedProxies, parse_keys, parse_network
from tests.proxy.harness import post
from tests.proxy.upstream import json_answer

OK = json_answer(b"{}")
CHECKED = Credentials(frozenset({b"authorization", b"x-api-key"}))
OURS = Credentials(frozenset({b"authorization", b"x-api-key"}), b"Bearer ours")


def gate():
    return KeyGate(KeyRing(parse_keys("team-a=one\ntwo\n")))


async def relayed(s, raw):
    """What the endpoint got, of a request that is answered."""
    async with await s.client() as client:
        await client.send(raw)
        endpoint = await s.upstream.accept()
        request = await endpoint.request()
        await endpoint.send(OK)
        assert (await client.read_response()).status == 200
        return request


MISSING = "an API key is needed: send Authorization: Bearer KEY"
WRONG = "the API key is not valid"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (post(), MISSING),
        (post(extra=b"Authorization: bearer\r\n"), MISSING),
        (post(extra=b"Authorization: \r\n"), MISSING),
        (post(extra=b"Authorization: Bearer three\r\n"), WRONG),
        (post(path=b"/v1/messages", extra=b"X-Api-Key: three\r\n"), WRONG),
        (post(b"--b--", b"/v1/audio/transcriptions"), MISSING),
        (b"GET /anything HTTP/1.1\r\nHost: x\r\n\r\n", MISSING),
        (
            b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            MISSING,
        ),
        (b"GET /%2e%2e/healthz HTTP/1.1\r\nHost: x\r\n\r\n", MISSING),
    ],
)
async def test_without_a_valid_key_nothing_is_relayed(stage, raw, message):
    async with stage(gate=gate()) as s, await s.client() as client:
        await client.send(raw)
        response = await client.read_response()
        assert response.status == 401
        assert response.value(b"www-authenticate") == b'Bearer realm="epp"'
        assert response.value(b"x-request-id")
        assert json.loads(response.body)["error"] == {
            "message": message,
            "type": "authentication_error",
            "param": None,
            "code": "invalid_api_key",
        }
        ended = await s.director.ended()
        assert (ended.reason, ended.error.status) == ("rejected", 401)
        assert s.upstream.accepted == 0
        assert s.director.bodies == []


async def test_the_body_of_a_request_without_a_key_is_neither_asked_for_nor_read(stage):
    async with stage(gate=gate()) as s, await s.client() as client:
        await client.send(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
        )
        response = await client.read_response()
        assert response.status == 401
        assert response.value(b"connection") == b"close"
        assert s.relay.buffered_bytes == 0


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        (b"Authorization: Bearer one\r\n", "team-a"),
        (b"x-api-key: one\r\n", "team-a"),
        (b"Authorization: Bearer two\r\n", None),
        (b"Authorization: Bearer two\r\nX-API-Key: garbage\r\n", None),
    ],
)
async def test_a_key_that_is_checked_here_is_not_forwarded_and_its_name_is_known(stage, extra, name):
    async with stage(gate=gate(), credentials=CHECKED) as s:
        request = await relayed(s, post(extra=extra))
        assert request.values(b"authorization") == []
        assert request.values(b"x-api-key") == []
        assert s.director.heads[0].key_name == name


async def test_the_endpoints_key_takes_the_place_of_the_clients(stage):
    async with stage(gate=gate(), credentials=OURS) as s:
        request = await relayed(s, post(extra=b"Authorization: Bearer one\r\n"))
        assert request.values(b"authorization") == [b"Bearer ours"]
    async with stage(credentials=OURS) as s:
        request = await relayed(s, post(extra=b"Authorization: Bearer theirs\r\nX-Api-Key: theirs\r\n"))
        assert request.values(b"authorization") == [b"Bearer ours"]
        assert request.values(b"x-api-key") == []


async def test_keys_are_replaced_between_two_requests_of_a_connection(stage):
    guard = gate()
    async with stage(gate=guard) as s, await s.client() as client:
        await client.send(post(extra=b"Authorization: Bearer one\r\n"))
        endpoint = await s.upstream.accept()
        await endpoint.request()
        await endpoint.send(OK)
        assert (await client.read_response()).status == 200
        guard.keys = KeyRing(parse_keys("three"))
        await client.send(post(extra=b"Authorization: Bearer one\r\n"))
        assert (await client.read_response()).status == 401


FORWARDED = (
    b"X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: outer\r\n"
    b"X-Forwarded-Port: 443\r\nForwarded: for=198.51.100.9\r\nX-Real-IP: 198.51.100.9\r\n"
)


def forwarding(request):
    names = (
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"forwarded",
        b"x-real-ip",
    )
    return [request.values(name) for name in names]


@pytest.mark.parametrize("proxies", [None, TrustedProxies([parse_network("10.0.0.0/8")])])
async def test_what_an_untrusted_peer_says_of_others_is_replaced(stage, proxies):
    async with stage(proxies=proxies) as s:
        request = await relayed(s, post(extra=FORWARDED))
        assert forwarding(request) == [[b"127.0.0.1"], [b"http"], [b"router"], [], [], []]
        assert s.director.heads[0].client == "127.0.0.1"


async def test_what_a_trusted_proxy_says_is_continued(stage):
    async with stage(proxies=TrustedProxies([parse_network("127.0.0.0/8")])) as s:
        request = await relayed(s, post(extra=FORWARDED))
        assert forwarding(request) == [
            [b"198.51.100.9, 127.0.0.1"],
            [b"https"],
            [b"outer"],
            [b"443"],
            [b"for=198.51.100.9, for=127.0.0.1"],
            [b"198.51.100.9"],
        ]
        assert s.director.heads[0].client == "198.51.100.9"


async def test_a_trusted_proxy_that_forwards_nonsense_leaves_the_caller_unknown(stage):
    async with stage(proxies=TrustedProxies([parse_network("127.0.0.0/8")])) as s:
        request = await relayed(s, post(extra=b"X-Forwarded-For: \xff, unknown\r\n"))
        assert request.values(b"x-forwarded-for") == [b"\xff, unknown, 127.0.0.1"]
        assert s.director.heads[0].client is None
