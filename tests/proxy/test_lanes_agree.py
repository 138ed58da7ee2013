"""The fast lane against the ASGI relay: whatever an endpoint does, both do the same."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from epp.director.exchange import RewrittenBody
from epp.errors import BadRequestError, SaturatedError
from epp.http import UpstreamSettings
from epp.proxy import ProxySettings
from epp.request import Api, InferenceRequest, Rewrite
from epp.security import KeyGate, KeyRing, parse_keys
from tests.proxy.conftest import Stage, new_stage
from tests.proxy.harness import PATIENCE_S, RawClient, RawResponse, post
from tests.proxy.upstream import LAST_CHUNK, SSE_HEAD, UpstreamConnection, chunk, json_answer

DRAINING = (
    b'{"error":{"message":"cannot schedule new futures after shutdown","type":"InternalServerError",'
    b'"param":null,"code":500}}'
)
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\n'
BUSY = json_answer(b'{"error":"busy"}', b"503 Service Unavailable")
FINE = json_answer(b'{"id":"1","usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}')
STREAM = SSE_HEAD + chunk(b"data: 1\n\n") + chunk(USAGE) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK
EVENTS_CUT = SSE_HEAD + chunk(b"data: 1\n\n")


@dataclass(frozen=True)
class Answer:
    """What one execution's endpoint sends, and whether it then closes or resets its connection."""

    data: bytes
    then: str = "stay"


@dataclass(frozen=True)
class Scenario:
    """A request, and what each endpoint in turn makes of it."""

    answers: tuple[Answer, ...]
    request: bytes = post()
    targets: int | None = None
    settings: ProxySettings = field(default_factory=ProxySettings)
    director: dict[str, object] = field(default_factory=dict)
    relay: dict[str, object] = field(default_factory=dict)


def answers(*data: bytes, then: str = "stay") -> Scenario:
    """Endpoints that send these; the last one ends its connection with `then`."""
    return Scenario((*(Answer(one) for one in data[:-1]), Answer(data[-1], then)))


NAMED = json_answer(b'{"id":"1","model":"m-v2","usage":{"prompt_tokens":3,"completion_tokens":1}}')
NAME_LAST = b'0],"model":"m-v2"}'
NAMED_STREAM = (
    SSE_HEAD
    + chunk(b'data: {"model":"m-v2","n":1}\n\n') * 3
    + chunk(b'data: {"model":"m-v2","n":2}\n\n' + USAGE)
    + chunk(b"data: [DONE]\n\n")
    + LAST_CHUNK
)


def renamed(
    *data: bytes,
    then: str = "stay",
    request: bytes = post(),
    settings: ProxySettings | None = None,
    decoded: bool = False,
    fits: bool = True,
) -> Scenario:
    """A request for m that goes to m-v2."""
    body = RewrittenBody(b'{"model":"m-v2","padding":"%b"}' % (b"x" * 1000), decoded=decoded)
    made = answers(*data, then=then)
    return Scenario(
        made.answers if fits else (),
        request=request,
        targets=None if fits else 0,
        settings=settings or ProxySettings(),
        director={"rewrite": Rewrite("m", "m-v2", "canary"), "rewritten": body},
    )


RESPONSES = InferenceRequest(api=Api.RESPONSES, model="m", salt="", prompts=(), stream=False, body_bytes=13)
KEYS = KeyGate(KeyRing(parse_keys("team=secret-key-of-a-client")))

SCENARIOS = {
    "json": answers(FINE),
    "a stream with usage": answers(STREAM),
    "no content": answers(b"HTTP/1.1 204 No Content\r\nx-a: 1\r\n\r\n"),
    "not modified, with a length": answers(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 20\r\n\r\n"),
    "not found": answers(json_answer(b'{"error":"no"}', b"404 Not Found")),
    "too many requests": answers(json_answer(b"{}", b"429 Too Many Requests", b"retry-after: 3\r\n")),
    "a bug": answers(json_answer(b'{"error":"bug"}', b"500 Internal Server Error")),
    "a status nobody knows": answers(json_answer(b"{}", b"599 What")),
    "an empty body in chunks": answers(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + LAST_CHUNK),
    "an empty body with a length": answers(json_answer(b"")),
    "a body up to the end of the connection": answers(b"HTTP/1.1 200 OK\r\n\r\nabc", then="close"),
    "an interim response first": answers(b"HTTP/1.1 100 Continue\r\n\r\n" + FINE),
    "an answer in HTTP/1.0": answers(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", then="close"),
    "a compressed answer": answers(json_answer(b"\x1f\x8b\x08\x00", extra=b"content-encoding: gzip\r\n")),
    "trailers": answers(SSE_HEAD + chunk(b"data: 1\n\n") + b"0\r\nx-t: 1\r\n\r\n"),
    "odd headers": answers(
        json_answer(
            b"{}",
            extra=b"Set-Cookie: a=1\r\nset-cookie: b=2\r\nConnection: x-hop\r\nX-Hop: 1\r\nServer: v\r\n"
            b"Date: then\r\nX-Epp-Endpoint: lie\r\nX-Request-Id: theirs\r\nX-Bytes: caf\xe9\r\n",
        )
    ),
    "busy, then fine": answers(BUSY, FINE),
    "busy everywhere": answers(BUSY, BUSY, BUSY),
    "draining, then fine": answers(json_answer(DRAINING, b"500 Internal Server Error"), STREAM),
    "draining everywhere": answers(json_answer(DRAINING, b"500 Internal Server Error")),
    "busy without end": answers(
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 70000\r\n\r\n" + b"x" * 70_000
    ),
    "busy, then broken off": Scenario(
        (Answer(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 9\r\n\r\nab", "close"), Answer(FINE))
    ),
    "a bug, broken off": answers(
        b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 9\r\n\r\nab", then="close"
    ),
    "no byte, then fine": Scenario((Answer(b"", "close"), Answer(FINE))),
    "no byte anywhere": answers(b"", then="close"),
    "a reset, then fine": Scenario((Answer(b"", "reset"), Answer(FINE))),
    "a head and no body, then fine": Scenario((Answer(SSE_HEAD, "close"), Answer(STREAM))),
    "half a head, then fine": Scenario((Answer(b"HTTP/1.1 200 OK\r\ncont", "close"), Answer(FINE))),
    "not HTTP": answers(b"SSH-2.0-OpenSSH\r\n"),
    "busy, then not HTTP": answers(BUSY, b"SSH-2.0-OpenSSH\r\n"),
    "a stream that breaks off": answers(EVENTS_CUT, then="close"),
    "a stream that is reset": answers(EVENTS_CUT, then="reset"),
    "a stream of bad chunks": answers(EVENTS_CUT + b"zz\r\n"),
    "a length that is not kept": answers(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", then="close"),
    "a stream that breaks off, told in the stream": Scenario(
        (Answer(EVENTS_CUT, "close"),), settings=ProxySettings(stream_error_event=True)
    ),
    "a document that breaks off, not told in it": Scenario(
        (Answer(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", "close"),),
        settings=ProxySettings(stream_error_event=True),
    ),
    "a stored response": Scenario(
        (Answer(json_answer(b'{"object":"response","id":"resp_1"}')),), director={"request": RESPONSES}
    ),
    "headers of plugins": Scenario((Answer(FINE),), director={"added_headers": (("x-session", "a"),)}),
    "hashing in steps": Scenario((Answer(FINE),), director={"yields": 3}),
    "a bad request": Scenario((), director={"prepare_error": BadRequestError("no model", param="model")}),
    "a saturated pool": Scenario((), director={"pick_error": SaturatedError("full")}, targets=0),
    "a fault of ours": Scenario((), targets=0),
    "a decision that is explained": Scenario(
        (Answer(FINE),),
        request=post(extra=b"X-Epp-Explain: 1\r\n"),
        relay={"explain": lambda _exchange, _scope: "because"},
    ),
    "a decision that may not be seen": Scenario((Answer(FINE),), request=post(extra=b"X-Epp-Explain: 1\r\n")),
    "an endpoint that stays unnamed": Scenario(
        (Answer(FINE),), settings=ProxySettings(expose_endpoint=False)
    ),
    "a client that closes": Scenario((Answer(STREAM),), request=post(extra=b"Connection: close\r\n")),
    "a request in chunks": Scenario(
        (Answer(FINE),),
        request=b"POST /v1/completions?a=%20b HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunk(b'{"model":')
        + chunk(b'"m"}')
        + LAST_CHUNK,
    ),
    "a request without a body": Scenario(
        (Answer(FINE),), request=b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nContent-Length: 0\r\n\r\n"
    ),
    "an announced body that is too large": Scenario(
        (), request=post(b"x" * 20), settings=ProxySettings(max_request_bytes=10)
    ),
    "chunks that are too large": Scenario(
        (),
        request=b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunk(b"x" * 8) * 2,
        settings=ProxySettings(max_request_bytes=10),
    ),
    "more than may be held": Scenario(
        (), request=post(b"x" * 20), settings=ProxySettings(max_buffered_bytes=9)
    ),
    "bad chunks from the client": Scenario(
        (), request=b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    ),
    "a body that does not come": Scenario(
        (),
        request=b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nContent-Length: 5\r\n\r\nab",
        settings=ProxySettings(body_timeout_s=0.02),
    ),
    "no key": Scenario((), relay={"gate": KEYS}),
    "a key": Scenario(
        (Answer(FINE),),
        request=post(extra=b"Authorization: Bearer secret-key-of-a-client\r\n"),
        relay={"gate": KEYS},
    ),
    "another model, answered as a document": renamed(NAMED),
    "another model, answered before its name": renamed(
        json_answer(b'{"choices":[' + b"1," * 40_000 + NAME_LAST)
    ),
    "another model, answered as a stream": renamed(NAMED_STREAM),
    "another model, answered as a stream that breaks off": renamed(
        SSE_HEAD + chunk(b'data: {"model":"m-v'),
        then="close",
        settings=ProxySettings(stream_error_event=True),
    ),
    "another model, answered without a body": renamed(json_answer(b"")),
    "another model, answered with an error": renamed(
        json_answer(b'{"model":"m-v2","error":"no"}', b"404 Not Found")
    ),
    "another model, answered compressed": renamed(
        json_answer(b"\x1f\x8b", extra=b"content-encoding: gzip\r\n")
    ),
    "another model, answered as text": renamed(json_answer(b'{"model":"m-v2"}').replace(b"/json", b"/text")),
    "another model, busy, then fine": renamed(BUSY, NAMED),
    "another model in a compressed body": renamed(
        NAMED,
        request=post(b"\x1f\x8b\x08", extra=b"Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n"),
        decoded=True,
    ),
    "another model in a body that inflates to more than may be held": renamed(
        NAMED, settings=ProxySettings(max_buffered_bytes=len(post())), decoded=True, fits=False
    ),
    "a client's request id": Scenario((Answer(FINE),), request=post(extra=b"X-Request-Id: mine\r\n")),
}

# What an endpoint sends, in one piece or in many.
CUTS = (None, 1, 16)


@dataclass(frozen=True)
class Observed:
    """Everything that can be seen of a request from outside, and what the director was told."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    complete: bool
    stays_open: bool
    forwarded: list[tuple[bytes, list[tuple[bytes, bytes]], bytes]]
    calls: list[tuple[str, object]]
    ended: tuple[object, ...]


async def send_in_pieces(endpoint: UpstreamConnection, data: bytes, size: int | None) -> None:
    for start in range(0, len(data), size or max(len(data), 1)):
        if endpoint.writer.transport.is_closing():  # the router has seen enough
            return
        endpoint.writer.write(data[start : start + (size or len(data))])
        await asyncio.sleep(0)


async def serve(stage: Stage, scenario: Scenario, cut: int | None) -> list[tuple[bytes, list, bytes]]:
    """Play the endpoints."""
    forwarded = []
    for answer in scenario.answers:
        endpoint = await stage.upstream.accept()
        request = await endpoint.request()
        forwarded.append((request.line, [h for h in request.headers if h[0] != b"host"], request.body))
        await send_in_pieces(endpoint, answer.data, cut)
        if answer.then == "close":
            endpoint.close()
        elif answer.then == "reset":
            endpoint.reset()
    return forwarded


async def read_chunks(client: RawClient) -> tuple[bytes, bool]:
    """The body as far as it came, and whether that is all of it."""
    pieces = []
    try:
        while piece := await client.read_chunk():
            pieces.append(piece)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b"".join(pieces), False
    return b"".join(pieces), True


async def read_length(client: RawClient, length: int) -> tuple[bytes, bool]:
    """Likewise."""
    try:
        return await client.read_exactly(length), True
    except asyncio.IncompleteReadError as error:
        return error.partial, False


async def read_body(client: RawClient, head: RawResponse) -> tuple[bytes, bool]:
    if head.status in {204, 304}:
        return b"", True
    if head.values(b"transfer-encoding"):
        return await read_chunks(client)
    return await read_length(client, int(head.value(b"content-length") or 0))


async def is_open(client: RawClient) -> bool:
    """The connection serves another request, which is refused without an endpoint."""
    try:
        await client.send(b"GET / HTTP/1.1\r\n\r\n")  # no Host
        return (await client.read_head()).status == 400
    except (asyncio.IncompleteReadError, ConnectionError):
        return False


def comparable(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without what differs between two runs: the time, the endpoint's port, an id of the server's own."""
    kept = [h for h in headers if h[0] not in {b"date", b"x-epp-endpoint"}]
    return sorted(
        (name, value if name != b"x-request-id" or len(value) != 32 else b"random") for name, value in kept
    )


async def observe(lane: str, scenario: Scenario, cut: int | None) -> Observed:
    async with (
        new_stage(
            scenario.settings,
            UpstreamSettings(),
            targets=0,
            lane=lane,
            new_request_id=lambda: b"generated",
            **scenario.relay,
        ) as stage,
        await stage.client() as client,
    ):
        for name, value in scenario.director.items():
            setattr(stage.director, name, value)
        count = len(scenario.answers) if scenario.targets is None else scenario.targets
        stage.director.targets = [stage.upstream.target(fresh=True) for _ in range(count)]
        playing = asyncio.create_task(serve(stage, scenario, cut))
        await client.send(scenario.request)
        async with asyncio.timeout(PATIENCE_S):
            head = await client.read_head()
            body, complete = await read_body(client, head)
            forwarded = await playing
        ended = await stage.director.ended()
        return Observed(
            head.status,
            comparable(head.headers),
            body,
            complete,
            await is_open(client),
            forwarded,
            stage.director.calls,
            (ended.reason, ended.usage, ended.response_bytes, ended.error and ended.error.code),
        )


def unframed(seen: Observed) -> Observed:
    framing = {b"content-length", b"transfer-encoding"}
    return replace(seen, headers=[header for header in seen.headers if header[0] not in framing])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_both_lanes_do_the_same(name, cut):
    scenario = SCENARIOS[name]
    if cut and sum(len(answer.data) for answer in scenario.answers) > 10_000:
        cut *= 1000

    fast, asgi = await observe("fast", scenario, cut), await observe("asgi", scenario, cut)
    if cut and "rewrite" in scenario.director:  # the length is told if the name is in what has come by then
        fast, asgi = unframed(fast), unframed(asgi)

    assert fast == asgi


async def test_the_comparison_sees_what_the_lanes_have_in_common():
    """That is, the scenarios reach the endpoints and the answers come back."""
    seen = await observe("fast", SCENARIOS["a stream with usage"], None)

    assert (seen.status, seen.complete, seen.stays_open) == (200, True, True)
    assert seen.body == b"data: 1\n\n" + USAGE + b"data: [DONE]\n\n"
    assert [line for line, _, _ in seen.forwarded] == [b"POST /v1/chat/completions HTTP/1.1"]
    assert (seen.ended[0], seen.ended[1].prompt_tokens) == ("complete", 7)


@pytest.mark.parametrize("lane", ["fast", "asgi"])
async def test_another_model_is_sent_and_the_clients_name_comes_back(lane):
    seen = await observe(lane, SCENARIOS["another model in a compressed body"], None)
    [(_, headers, body)] = seen.forwarded

    assert body.startswith(b'{"model":"m-v2","padding"')
    assert (b"content-length", b"%d" % len(body)) in headers
    assert {name for name, _ in headers} & {b"content-encoding", b"accept-encoding"} == set()
    assert seen.body == b'{"id":"1","model":"m","usage":{"prompt_tokens":3,"completion_tokens":1}}'
    assert (b"content-length", b"%d" % len(seen.body)) in seen.headers
    assert seen.ended[1].prompt_tokens == 3


@pytest.mark.parametrize("lane", ["fast", "asgi"])
async def test_the_event_of_a_break_is_told_behind_a_name_that_was_cut(lane):
    seen = await observe(lane, SCENARIOS["another model, answered as a stream that breaks off"], None)

    assert seen.body.startswith(b'data: {"model":"m"\n\n')
    assert b"event: error" in seen.body
