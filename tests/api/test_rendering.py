"""JSON of the control surface."""

import asyncio

from epp.api.rendering import json_list, json_response, sliced


def test_a_list_has_a_slice_for_each_item_and_is_made_as_it_is_asked_for():
    made = []

    def items():
        for number in range(3):
            made.append(number)
            yield {"n": number}

    slices = json_list(items())

    assert (next(slices), made) == (b'[{"n":0}', [0])
    assert list(slices) == [b',{"n":1}', b',{"n":2}', b"]"]


def test_an_empty_list_is_one_slice():
    assert list(json_list([])) == [b"[]"]


def test_a_document_is_json():
    response = json_response({"a": ("b", None)})

    assert (response.body, response.media_type) == (b'{"a":["b",null]}', "application/json")


async def test_between_two_slices_others_have_their_turn():
    turns, pieces = [], []

    async def other():
        while len(pieces) < 3:
            turns.append(len(pieces))
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for piece in sliced(iter([b"a", b"b", b"c"])):
        pieces.append(piece)  # noqa: PERF401 - the other one watches it grow
    await task

    assert pieces == [b"a", b"b", b"c"]
    assert {1, 2} <= set(turns)
