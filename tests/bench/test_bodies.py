"""Bodies of workloads."""

import json

import pytest

from bench.suite.bodies import HOLE, WORDS, Body, bodies_file, chat_body, text_of


@pytest.mark.parametrize("script", sorted(WORDS))
@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("size", [1_000, 20_000])
def test_a_body_has_nearly_the_size_it_states(script, escaped, size):
    body = chat_body(Body(size, script, escaped), 0)
    assert size - 150 <= len(body) <= size


def test_an_escaped_body_says_the_same_in_ascii():
    plain = chat_body(Body(5_000, "chinese"), 0)
    escaped = chat_body(Body(5_000, "chinese", escaped=True), 0)

    assert not plain.isascii()
    assert escaped.isascii()
    start = json.loads(escaped)["messages"][0]["content"]
    assert json.loads(plain)["messages"][0]["content"].startswith(start[:200])


def test_the_hole_stands_where_the_shared_part_ends():
    body = chat_body(Body(10_000, shared=0.8), 3)
    assert body.count(HOLE.encode()) == 1
    assert 0.75 < body.index(HOLE.encode()) / len(body) < 0.85


def test_a_body_that_shares_nothing_begins_with_the_hole():
    messages = json.loads(chat_body(Body(10_000, shared=0.0), 0))["messages"]
    assert messages[0]["content"] == ""
    assert messages[1]["content"].startswith(f"Question {HOLE}")


def test_groups_differ_and_a_group_is_the_same_each_time():
    body = Body(2_000)
    assert chat_body(body, 1) == chat_body(body, 1)
    assert chat_body(body, 1) != chat_body(body, 2)


def test_a_stream_asks_for_usage():
    assert json.loads(chat_body(Body(1_000, stream=True), 0))["stream_options"] == {"include_usage": True}
    assert "stream_options" not in json.loads(chat_body(Body(1_000), 0))


def test_a_prompt_is_a_body_of_completions():
    fields = json.loads(chat_body(Body(1_000, prompt=True), 0))
    assert HOLE in fields["prompt"]
    assert "messages" not in fields


def test_the_file_has_a_body_a_line():
    lines = bodies_file(Body(1_000, groups=5)).splitlines()
    assert [json.loads(line)["model"] for line in lines] == ["m"] * 5


def test_text_never_exceeds_its_size():
    assert len(text_of("english", 10, 1, escaped=False)) <= 10
