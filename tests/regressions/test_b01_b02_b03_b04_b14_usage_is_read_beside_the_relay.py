"""Usage was lost, or bytes were changed, where events and pieces did not fall together.

B01 (GIE p2026): usage only in the piece with the end mark. B02 (AG i2162, AX i2266): an event cut in two. B03 (AG p2470):
no space after `data:`. B04 (llm-gateway i2053): comments. B14 (llm-d i1363, LR p1240): usage of a wrong type.
"""

import asyncio

import pytest

from epp.response import ResponseObserver, Usage

STREAM = "text/event-stream"
USAGE = b'data: {"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
TRANSCRIPT = (
    'data: {"choices":[{"delta":{"content":"Grüße, 世界 🌍"}}]}\n\n'.encode() + b": ping\n\n" + USAGE + DONE
)


def observed(*pieces):
    observer = ResponseObserver(STREAM, None)
    for piece in pieces:
        observer.feed(piece)
    return observer.finish()


def test_b01_usage_and_end_mark_in_two_pieces_or_in_one():
    assert observed(USAGE, DONE) == observed(USAGE + DONE) == Usage(7, 3)


def test_b02_cut_at_every_byte_and_byte_by_byte_the_usage_is_the_same():
    found = {observed(TRANSCRIPT[:cut], TRANSCRIPT[cut:]) for cut in range(len(TRANSCRIPT) + 1)}
    found.add(observed(*[bytes([byte]) for byte in TRANSCRIPT]))

    assert found == {Usage(7, 3)}


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_b03_other_spaces_line_ends_and_fields(end):
    data = b'data:{"usage":{"prompt_tokens":7,"completion_tokens":3}}'
    fields = (
        b"id: 1"
        + end[: len(end) // 2]
        + b"event: x"
        + end[: len(end) // 2]
        + b"retry: 9"
        + end[: len(end) // 2]
    )

    assert observed(data + end) == observed(fields + data + end) == Usage(7, 3)


def test_b04_comments_before_between_and_inside_events():
    assert observed(b": ping\n\n", USAGE[:-1], b": ping\n\n", b": ping\n\n", DONE) == Usage(7, 3)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (b'"oops"', None),
        (b'{"prompt_tokens":"1024"}', Usage(1024)),
        (b'{"prompt_token_details":0}', None),
        (b'{"prompt_tokens":7,"prompt_tokens_details":0}', Usage(7)),
        (b"null", None),
        (b"[]", None),
        (b'{"completion_tokens":-1}', None),
        (b'{"prompt_tokens":7,"completion_tokens":1.5}', Usage(7)),
        (b'{"prompt_tokens":true}', None),
        (b'{"prompt_tokens":1e99}', None),
    ],
)
def test_b14_usage_of_a_wrong_type_is_passed_over(usage, expected):
    document = ResponseObserver("application/json", None)
    document.feed(b'{"usage":%b}' % usage)

    assert (observed(b'data: {"usage":%b}\n\n' % usage), document.finish()) == (expected, expected)


async def relayed(endpoint, router, pieces):
    """What a client gets of a stream in these pieces, and what was noted of it."""
    asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m", "stream": True}))
    call = await endpoint.call()
    await call.stream(*pieces)
    await call.end()
    return (await asking).content


async def test_b02_b04_the_client_gets_the_bytes_that_were_sent(theatre):
    endpoint, router = theatre
    cuts = range(1, len(TRANSCRIPT), 9)
    got = {await relayed(endpoint, router, [TRANSCRIPT[:cut], TRANSCRIPT[cut:]]) for cut in cuts}
    got.add(await relayed(endpoint, router, [bytes([byte]) for byte in TRANSCRIPT]))
    decisions = await router.decisions(len(cuts) + 1)

    assert got == {TRANSCRIPT}
    assert {(d["prompt_tokens"], d["completion_tokens"]) for d in decisions} == {(7, 3)}


async def test_b14_an_answer_with_odd_usage_passes_unchanged(theatre):
    endpoint, router = theatre
    bodies = [
        b'{"usage":"oops"}',
        b'{"usage":{"prompt_tokens":"1024"}}',
        b'{"usage":null}',
        b'{"usage":[]}',
        b"null",
        b"7",
    ]
    for body in bodies:
        asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
        await (await endpoint.call()).answer(body)
        assert (await asking).content == body
    assert await router.sample("epp_observer_errors_total") == 0
