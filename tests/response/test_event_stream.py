"""Usage in event streams, however they are framed and cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.response import Usage
from epp.response.events import EventStreamReader
from tests.response.transcripts import body_of

USAGE = b'{"usage":{"prompt_tokens":7,"completion_tokens":3}}'
FOUND = Usage(7, 3, None)

MULTILINGUAL = (
    'data: {"choices":[{"delta":{"content":"Xin chào 模型 😀 \\"usage\\""}}],"usage":null}\n\n'
    ": keep-alive\n\n"
    'data: {"choices":[],"usage":{"prompt_tokens":13,"completion_tokens":6,'
    '"prompt_tokens_details":{"cached_tokens":8}}}\n\n'
    "data: [DONE]\n\n"
).encode()


def read(*chunks, limit_bytes=100_000):
    reader = EventStreamReader(limit_bytes)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def each_byte(stream):
    return [stream[i : i + 1] for i in range(len(stream))]


def test_usage_before_the_end_mark_is_found_in_one_piece_or_two():
    event, done = b"data: " + USAGE + b"\n\n", b"data: [DONE]\n\n"
    assert read(event, done) == FOUND
    assert read(event + done) == FOUND


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("space", [b"", b" "])
def test_every_line_end_and_a_missing_space_are_read(end, space):
    stream = b"data:" + space + b'{"a":1}' + end + end + b"data:" + space + USAGE + end + end
    assert read(stream) == FOUND
    assert read(*each_byte(stream)) == FOUND
    for cut in range(len(stream)):
        assert read(stream[:cut], stream[cut:]) == FOUND


def test_other_fields_and_comments_around_the_data_are_passed_over():
    assert (
        read(
            b": ping\n\nid: 1\nevent: x\n: ping\nretry: 5\ndata: " + USAGE + b"\nid: 2\n: ping\n\n: ping\n\n"
        )
        == FOUND
    )


def test_usage_in_a_comment_or_another_field_is_no_usage():
    assert (
        read(
            b": data: "
            + USAGE
            + b"\n\nevent: "
            + USAGE
            + b"\n\nxdata: "
            + USAGE
            + b"\n\ndatum:"
            + USAGE
            + b"\n\n"
        )
        is None
    )


def test_the_data_lines_of_an_event_are_one_document():
    lines = b'data: {"usage":\ndata: {"prompt_tokens":7,\n: between\ndata:"completion_tokens":3}}\n\n'
    assert read(lines) == FOUND
    assert read(*each_byte(lines)) == FOUND
    assert read(lines.replace(b"\n", b"\r\n")) == FOUND


def test_a_blank_line_ends_the_event():
    assert read(b'data: {"usage":\n\ndata: {"prompt_tokens":7}}\n\n') is None


def test_a_line_feed_after_a_carriage_return_is_no_blank_line_wherever_the_cut_is():
    assert read(b'data: {"usage":\r', b'\ndata: {"prompt_tokens":7}}\r', b"\n\r", b"\n") == Usage(
        7, None, None
    )
    assert read(b'data: {"usage":\r', b"", b'\ndata: {"prompt_tokens":7}}\r\n\r\n') == Usage(7, None, None)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r"])
def test_an_event_at_the_end_counts_without_its_blank_line(end):
    assert read(b"data: " + USAGE + end) == FOUND


def test_a_stream_without_usage_has_none():
    assert read() is None
    assert read(b"") is None
    assert read(b'data: {"choices":[]}\n\ndata: [DONE]\n\n') is None
    assert read(body_of("sse-chat.http")) is None


@pytest.mark.parametrize(
    "event", [b'{"usage":null}', b'{"usage":"oops"}', b'{"usage":', b"usage", b'"usage"', b'["usage"]']
)
def test_broken_and_empty_usage_is_passed_over_and_the_next_still_found(event):
    assert read(b"data: " + event + b"\n\n") is None
    assert read(b"data: " + event + b"\n\ndata: " + USAGE + b"\n\n") == FOUND


def test_anthropic_start_and_delta_are_merged():
    start = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":100,"output_tokens":0}}}\n\n'
    delta = (
        b'event: message_delta\ndata: {"type":"message_delta","delta":{},"usage":{"output_tokens":20}}\n\n'
    )
    assert read(start, delta) == Usage(100, 20, None)


def test_running_totals_are_not_added_up():
    start = b'data: {"type":"message_start","message":{"usage":{"input_tokens":100,"output_tokens":1}}}\n\n'
    deltas = [
        b'data: {"type":"message_delta","usage":{"input_tokens":100,"output_tokens":%d}}\n\n' % n
        for n in (5, 12, 20)
    ]
    assert read(start, *deltas) == Usage(100, 20, None)
    assert read(start, b"".join(deltas)) == Usage(100, 20, None)


@pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
def test_usage_of_a_terminal_responses_event_counts_however_it_ended(end):
    event = f'event: response.{end}\ndata: {{"type":"response.{end}","response":{{"usage":{{"input_tokens":9,"output_tokens":2}}}}}}\n\n'
    assert read(event.encode()) == Usage(9, 2, None)
    without = f'event: response.{end}\ndata: {{"type":"response.{end}","response":{{"usage":null}}}}\n\n'
    assert read(without.encode()) is None


@pytest.mark.parametrize("stream, found", [
    (body_of("sse-chat-usage.http"), Usage(13, 6, 0)),
    (MULTILINGUAL, Usage(13, 6, 8)),
    (MULTILINGUAL.replace(b"\n", b"\r\n"), Usage(13, 6, 8)),
    (MULTILINGUAL.replace(b"\n", b"\r"), Usage(13, 6, 8)),
], ids=["recorded", "multilingual", "crlf", "cr"])  # fmt: skip
class TestTranscripts:
    def test_cut_at_every_byte(self, stream, found):
        assert {read(stream[:cut], stream[cut:]) for cut in range(len(stream) + 1)} == {found}

    def test_one_byte_at_a_time(self, stream, found):
        assert read(*each_byte(stream)) == found

    @pytest.mark.parametrize("size", [2, 3, 7, 64, 1000])
    def test_in_pieces_of_one_size(self, stream, found, size):
        assert read(*[stream[i : i + size] for i in range(0, len(stream), size)]) == found

    def test_broken_off_anywhere_nothing_is_raised_and_no_other_usage_is_found(self, stream, found):
        assert {read(stream[:end]) for end in range(len(stream))} == {None, found}


@given(
    st.lists(
        st.sampled_from(
            [b"data: ", b"data:", USAGE, b"\n", b"\r", b"\r\n", b"\n\n", b": c", b"id: 1", b"{", b"x"]
        ),
        max_size=30,
    ),
    st.randoms(),
)
def test_cuts_never_change_what_is_found(pieces, random):
    stream = b"".join(pieces)
    cuts = sorted(random.randrange(len(stream) + 1) for _ in range(4))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*chunks) == read(stream)


def naive(stream):
    """The standard's algorithm on the whole stream at once."""
    found = None
    for event in stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n"):
        data = b"\n".join(
            line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")
        )
        found = FOUND if data.strip() == USAGE else found  # empty data lines are white space around the JSON
    return found


@given(
    st.lists(
        st.sampled_from([b"data: ", b"data:", USAGE, b"\n", b"\r", b"\r\n", b": c", b"id: 1"]), max_size=30
    )
)
def test_events_are_those_of_a_naive_reader(pieces):
    stream = b"".join(pieces)
    assert read(stream) == naive(stream)


class TestBounds:
    def test_an_event_over_the_limit_is_passed_over_and_the_next_is_read(self):
        long = b'data: {"text":"' + b"x" * 200 + b'","usage":{"prompt_tokens":1}}\n\n'
        assert read(long, b"data: " + USAGE + b"\n\n", limit_bytes=100) == FOUND
        assert read(*each_byte(long), b"data: " + USAGE + b"\n\n", limit_bytes=100) == FOUND

    def test_an_event_of_many_short_lines_over_the_limit_is_passed_over(self):
        long = b"data: " + USAGE + b"\n" + b"data:          \n" * 10 + b"\n"
        assert read(long, limit_bytes=1000) == FOUND
        assert read(long, limit_bytes=100) is None
        assert read(long, b"data: " + USAGE + b"\n\n", limit_bytes=100) == FOUND

    def test_a_line_that_began_over_the_limit_stays_passed_over_until_its_blank_line(self):
        stream = [b"data: " + b"x" * 200, b"data: " + USAGE, b"\n", b"data: " + USAGE + b"\n", b"\n"]
        assert read(*stream, limit_bytes=100) is None

    def test_comments_without_blank_lines_do_not_fill_the_room_of_an_event(self):
        assert read(b": keep-alive\n" * 100, b"data: " + USAGE + b"\n\n", limit_bytes=100) == FOUND

    def test_an_endless_line_is_not_kept(self):
        import tracemalloc

        reader = EventStreamReader(10_000)
        tracemalloc.start()
        for _ in range(1000):
            reader.feed(b"data: " + b"x" * 1000)
        assert tracemalloc.get_traced_memory()[1] < 100_000
        tracemalloc.stop()
