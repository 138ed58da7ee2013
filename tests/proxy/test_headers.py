"""Headers both ways, through the whole front door."""

import pytest

from epp.proxy import ProxySettings
from tests.proxy.harness import post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, json_answer

OK = json_answer(b"{}")


async def exchange(s, raw, answer=OK, *, bodiless=False):
    """What the endpoint got and what the client got."""
    async with await s.client() as client:
        await client.send(raw)
        endpoint = await s.upstream.accept()
        request = await endpoint.request()
        await endpoint.send(answer)
        return request, await client.read_response(bodiless=bodiless)


async def test_host_is_the_endpoints_and_the_original_is_forwarded(stage):
    async with stage() as s:
        raw = b"GET /v1/models HTTP/1.1\r\nHost: public.example\r\nCookie: " + b"c" * 8000 + b"\r\n\r\n"
        request, _ = await exchange(s, raw)
        assert request.values(b"host") == [s.upstream.address.encode()]
        assert request.values(b"x-forwarded-host") == [b"public.example"]
        assert request.values(b"x-forwarded-for") == [b"127.0.0.1"]
        assert request.values(b"x-forwarded-proto") == [b"http"]
        assert request.values(b"cookie") == [b"c" * 8000]


@pytest.mark.parametrize(
    "raw",
    [
        post(extra=b"Authorization: Bearer k\r\n"),
        post(b"--b--", b"/v1/audio/transcriptions", b"Authorization: Bearer k\r\n"),
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n\r\n",
    ],
)
async def test_authorization_is_forwarded_on_every_route(stage, raw):
    async with stage() as s:
        request, _ = await exchange(s, raw)
        assert request.values(b"authorization") == [b"Bearer k"]


async def test_target_and_query_are_forwarded_as_they_came(stage):
    async with stage() as s:
        request, _ = await exchange(s, post(path=b"/v1/chat%2Fx?api-version=1&q=%2Fx"))
        assert request.line == b"POST /v1/chat%2Fx?api-version=1&q=%2Fx HTTP/1.1"
        assert s.director.heads[0].path == "/v1/chat/x"


async def test_a_valid_request_id_is_kept_everywhere(stage):
    async with stage() as s:
        request, response = await exchange(s, post(extra=b"X-Request-ID: abc\r\n"))
        assert request.values(b"x-request-id") == [b"abc"]
        assert response.value(b"x-request-id") == b"abc"
        assert s.director.heads[0].request_id == "abc"


@pytest.mark.parametrize("value", [None, b"", b"a b", b"x" * 129, b"\xe5"], ids=str)
async def test_a_missing_or_unfit_request_id_is_replaced(stage, value):
    extra = b"" if value is None else b"X-Request-ID: " + value + b"\r\n"
    async with stage(new_request_id=lambda: b"made-here") as s:
        request, response = await exchange(s, post(extra=extra))
        assert request.values(b"x-request-id") == [b"made-here"]
        assert response.value(b"x-request-id") == b"made-here"


async def test_there_is_one_date_and_one_server_and_both_are_ours(stage):
    answer = json_answer(b"{}", extra=b"date: yesterday\r\nserver: uvicorn\r\n")
    async with stage() as s:
        _, response = await exchange(s, post(), answer)
        assert response.value(b"server") == b"epp"
        assert response.value(b"date").endswith(b" GMT")


async def test_hop_by_hop_headers_stay_on_their_hop(stage):
    answer = json_answer(
        b"{}", extra=b"connection: keep-alive, x-hop\r\nkeep-alive: timeout=5\r\nx-hop: 1\r\n"
    )
    async with stage() as s:
        raw = post(extra=b"Connection: X-Mine\r\nX-Mine: 1\r\nTE: trailers\r\n")
        request, response = await exchange(s, raw, answer)
        assert [request.values(name) for name in (b"x-mine", b"te", b"connection")] == [[], [], []]
        assert [response.value(name) for name in (b"x-hop", b"keep-alive", b"connection")] == [None] * 3


async def test_routing_headers_of_clients_are_dropped(stage):
    extra = b"X-Gateway-Destination-Endpoint: 10.9.9.9:1\r\nx-gateway-destination-endpoint: 10.9.9.9:1\r\n"
    async with stage() as s:
        request, _ = await exchange(s, post(extra=extra))
        assert request.values(b"x-gateway-destination-endpoint") == []


async def test_odd_headers_pass_byte_for_byte(stage):
    extra = b"x-user: \xe5\xbc\xa0\r\nAuthorization: bearer\r\nx-session-id: s1\r\nx-session-id: s2\r\n"
    answer = json_answer(b"{}", extra=b"x-name: \xe5\xbc\xa0\r\nset-cookie: a\r\nset-cookie: b\r\n")
    async with stage() as s:
        request, response = await exchange(s, post(extra=extra), answer)
        assert request.values(b"x-user") == [b"\xe5\xbc\xa0"]
        assert request.values(b"authorization") == [b"bearer"]
        assert request.values(b"x-session-id") == [b"s1", b"s2"]
        assert response.value(b"x-name") == b"\xe5\xbc\xa0"
        assert response.values(b"set-cookie") == [b"a", b"b"]
        assert s.director.heads[0].headers["x-session-id"] == "s1, s2"


async def test_the_endpoints_content_length_is_kept_with_its_body(stage):
    async with stage() as s:
        _, response = await exchange(
            s, post(), json_answer(b'{"error":{"message":"12"}}', b"400 Bad Request")
        )
        assert response.value(b"content-length") == b"26"
        assert response.value(b"transfer-encoding") is None


async def test_a_stream_with_a_content_length_arrives_whole(stage):
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9\r\n\r\ndata: 1\n\n"
    async with stage() as s:
        _, response = await exchange(s, post(), answer)
        assert response.body == b"data: 1\n\n"


async def test_a_head_request_gets_the_length_without_a_body(stage):
    async with stage() as s:
        raw = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n"
        request, response = await exchange(s, raw, answer, bodiless=True)
        assert request.line == b"HEAD / HTTP/1.1"
        assert response.value(b"content-length") == b"40"
        assert s.director.bodies == [b""]
        assert (await s.director.ended()).reason == "complete"


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_an_answer_without_a_body_has_no_length(stage, status):
    async with stage() as s:
        raw = b"DELETE /v1/x HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = b"HTTP/1.1 " + status + b"\r\ncontent-length: 40\r\n\r\n"
        _, response = await exchange(s, raw, answer, bodiless=True)
        assert response.status == int(status[:3])
        assert response.value(b"content-length") is None
        assert (await s.director.ended()).reason == "complete"


async def test_the_endpoint_is_named_unless_that_is_switched_off(stage):
    answer = json_answer(b"{}", extra=b"x-epp-endpoint: 10.9.9.9:1\r\n")
    async with stage() as s:
        _, response = await exchange(s, post(), answer)
        assert response.value(b"x-epp-endpoint") == s.upstream.address.encode()
    async with stage(ProxySettings(expose_endpoint=False)) as s:
        _, response = await exchange(s, post(), answer)
        assert response.value(b"x-epp-endpoint") is None


async def test_the_decision_is_shown_on_request_to_those_who_may_see_it(stage):
    asked = []

    def explain(made, scope):
        asked.append((made.head.path, scope["client"][0]))
        return "picked=1"

    async with stage(explain=explain) as s:
        _, response = await exchange(s, post(extra=b"x-epp-explain: 1\r\n"))
        assert response.value(b"x-epp-decision") == b"picked=1"
        assert asked == [("/v1/chat/completions", "127.0.0.1")]
        s.director.targets.append(s.upstream.target(fresh=True))
        _, response = await exchange(s, post())
        assert response.value(b"x-epp-decision") is None
        assert len(asked) == 1


async def test_the_decision_is_not_shown_to_others(stage):
    async with stage() as s:
        _, response = await exchange(s, post(extra=b"x-epp-explain: 1\r\n"))
        assert response.value(b"x-epp-decision") is None


async def test_a_stream_is_chunked_to_the_client_whatever_its_framing_was(stage):
    async with stage() as s:
        _, response = await exchange(s, post(), SSE_HEAD + LAST_CHUNK)
        assert response.value(b"transfer-encoding") == b"chunked"
        assert response.value(b"content-type") == b"text/event-stream; charset=utf-8"


async def test_headers_that_plugins_add_take_the_place_of_the_endpoints(stage):
    async with stage() as s:
        s.director.added_headers = (("x-session-token", "abc"), ("x-two", "2"))
        answer = json_answer(b"{}", extra=b"X-Session-Token: theirs\r\nx-three: 3\r\n")
        _, response = await exchange(s, post(), answer)
        assert response.values(b"x-session-token") == [b"abc"]
        assert response.values(b"x-two") == [b"2"]
        assert response.values(b"x-three") == [b"3"]


async def test_the_headers_of_a_session_reach_the_endpoint(stage):
    async with stage() as s:
        request, _ = await exchange(s, post(extra=b"X-Session-Id: s1\r\nx-session-token: t\r\n"))
        assert request.values(b"x-session-id") == [b"s1"]
        assert request.values(b"x-session-token") == [b"t"]
