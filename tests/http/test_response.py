"""Reading responses: bytes in, outcome out, however the bytes are cut."""

from dataclasses import dataclass

import pytest

from epp.http.response import ResponseReader
from epp.http.types import ResponseHead, UpstreamSettings

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH_2 = OK + b"Content-Length: 2\r\n\r\n"


@dataclass(frozen=True)
class Outcome:
    """What a reader knows after all bytes of a transcript, and after the end of the input."""

    head: ResponseHead | None
    body: bytes
    complete: bool
    failed: bool
    reusable: bool
    complete_at_eof: bool


def read(pieces: list[bytes], *, head_only: bool = False, limits: UpstreamSettings | None = None) -> Outcome:
    """Feed pieces as a connection does: it stops at the end of a response and at an error."""
    reader = ResponseReader(limits or UpstreamSettings())
    reader.begin(head_only=head_only)
    body = b""
    for piece in pieces:
        reader.feed(piece)
        body += reader.take_body()
        if reader.error is not None:
            break
    complete, reusable = reader.complete, reader.reusable
    return Outcome(reader.head, body, complete, reader.error is not None, reusable, reader.end_of_input())


def every_cut(transcript: bytes) -> list[list[bytes]]:
    """The transcript whole, cut in two at each offset, and byte by byte."""
    halves = [[transcript[:i], transcript[i:]] for i in range(1, len(transcript))]
    return [[transcript], *halves, [transcript[i : i + 1] for i in range(len(transcript))]]


def head(*headers: tuple[bytes, bytes], status=200, reason=b"OK", version="1.1", keep_alive=True):
    return ResponseHead(status, reason, list(headers), version, keep_alive)


CL2 = (b"Content-Length", b"2")
TE = (b"Transfer-Encoding", b"chunked")
CLOSE = (b"Connection", b"close")

COMPLETE = {
    "content length": (LENGTH_2 + b"ab", head(CL2), b"ab", True),
    "empty body": (OK + b"Content-Length: 0\r\n\r\n", head((b"Content-Length", b"0")), b"", True),
    "chunked": (CHUNKED + b"1\r\na\r\nA\r\n0123456789\r\n0\r\n\r\n", head(TE), b"a0123456789", True),
    "chunk extensions and trailers": (
        CHUNKED + b'2;x="1"\r\nab\r\n0\r\nExpires: never\r\n\r\n',
        head(TE),
        b"ab",
        True,
    ),
    "connection: close": (
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nab",
        head(CLOSE, CL2, keep_alive=False),
        b"ab",
        False,
    ),
    "HTTP/1.0 with keep-alive": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nab",
        head((b"Connection", b"keep-alive"), CL2, version="1.0"),
        b"ab",
        True,
    ),
    "HTTP/1.0 with a length": (
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab",
        head(CL2, version="1.0", keep_alive=False),
        b"ab",
        False,
    ),
    "204 with a length": (
        b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n",
        head(CL2, status=204, reason=b"No Content"),
        b"",
        True,
    ),
    "304 with a length": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n",
        head(CL2, status=304, reason=b"Not Modified"),
        b"",
        True,
    ),
    "no reason phrase": (b"HTTP/1.1 429\r\nContent-Length: 2\r\n\r\nab", head(CL2, status=429, reason=b""), b"ab", True),
    "the last status": (b"HTTP/1.1 599 X\r\nContent-Length: 2\r\n\r\nab", head(CL2, status=599, reason=b"X"), b"ab", True),
    "bytes outside ASCII": (
        OK + b"X-Name: \xe5\xbc\xa0\r\nContent-Length: 2\r\n\r\nab",
        head((b"X-Name", b"\xe5\xbc\xa0"), CL2),
        b"ab",
        True,
    ),
    "interim responses first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + LENGTH_2 + b"ab",
        head(CL2),
        b"ab",
        True,
    ),
    "bytes after the end": (LENGTH_2 + b"ab" + LENGTH_2 + b"cd", head(CL2), b"ab", False),
    "garbage after the end": (LENGTH_2 + b"ab\x00", head(CL2), b"ab", False),
    "bytes after the last response": (
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nabX",
        head(CLOSE, CL2, keep_alive=False),
        b"ab",
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLETE)
def test_complete_response_reads_the_same_however_it_is_cut(name):
    transcript, expected_head, body, reusable = COMPLETE[name]

    outcomes = {repr(read(pieces)) for pieces in every_cut(transcript)}

    assert outcomes == {repr(Outcome(expected_head, body, True, False, reusable, True))}


CLOSE_DELIMITED = {
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nabc", head(version="1.0", keep_alive=False)),
    "connection: close": (OK + b"Connection: close\r\n\r\nabc", head(CLOSE, keep_alive=False)),
    "HTTP/1.1 without any framing": (OK + b"\r\nabc", head(keep_alive=False)),
}


@pytest.mark.parametrize("name", CLOSE_DELIMITED)
def test_body_without_framing_ends_with_the_connection_and_not_before(name):
    transcript, expected_head = CLOSE_DELIMITED[name]

    outcomes = {repr(read(pieces)) for pieces in every_cut(transcript)}

    assert outcomes == {repr(Outcome(expected_head, b"abc", False, False, False, True))}


CUT_SHORT = {
    "content length": OK + b"Content-Length: 9\r\n\r\nabc",
    "chunk": CHUNKED + b"9\r\nabc",
    "missing last chunk": CHUNKED + b"3\r\nabc\r\n",
    "missing end of trailers": CHUNKED + b"3\r\nabc\r\n0\r\n",
}


@pytest.mark.parametrize("name", CUT_SHORT)
def test_body_cut_short_is_never_complete(name):
    outcomes = [read(pieces) for pieces in every_cut(CUT_SHORT[name])]

    assert {(o.head is not None, o.body, o.complete, o.failed, o.complete_at_eof) for o in outcomes} == {
        (True, b"abc", False, False, False)
    }


@pytest.mark.parametrize(
    "transcript", [b"", b"HTTP/1.1 200 OK\r\nA: b\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"]
)
def test_input_that_ends_before_the_final_head_is_not_a_response(transcript):
    outcome = read([transcript])

    assert (outcome.head, outcome.complete, outcome.complete_at_eof) == (None, False, False)


BAD_HEADS = {
    "folded header": OK + b"A: b\r\n c\r\n\r\n",
    "null byte": OK + b"A: b\x00\r\n\r\n",
    "control character": OK + b"A: b\x01\r\n\r\n",
    "carriage return inside a value": OK + b"A: b\rc\r\n\r\n",
    "space in a name": OK + b"A B: c\r\n\r\n",
    "space before the colon": OK + b"A : c\r\n\r\n",
    "no colon": OK + b"ABC\r\n\r\n",
    "no name": OK + b": c\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n",
    "list of lengths": OK + b"Content-Length: 2, 2\r\n\r\n",
    "negative length": OK + b"Content-Length: -2\r\n\r\n",
    "endless length": OK + b"Content-Length: 99999999999999999999\r\n\r\n",
    "length and coding": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
    "coding and length": OK + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
    "unknown coding": OK + b"Transfer-Encoding: gzip\r\n\r\n",
    "coding below chunked": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "chunked twice": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two digits of status": b"HTTP/1.1 20 OK\r\n\r\n",
    "status below 100": b"HTTP/1.1 099 OK\r\n\r\n",
    "status above 599": b"HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n",
    "HTTP/2 version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/0.9 version": b"HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a request": b"GET / HTTP/1.1\r\n\r\n",
    "switch of protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "switch of protocols without a name": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_HEADS)
def test_bad_head_is_refused_however_it_is_cut(name):
    outcomes = [read(pieces) for pieces in every_cut(BAD_HEADS[name])]

    assert {(o.head, o.complete, o.failed, o.reusable) for o in outcomes} == {(None, False, True, False)}


BAD_BODIES = {
    "chunk size is no number": CHUNKED + b"2\r\nab\r\nzz\r\n",
    "chunk size overflows": CHUNKED + b"2\r\nab\r\nFFFFFFFFFFFFFFFFF\r\n",
    "chunk longer than its size": CHUNKED + b"2\r\nabXX0\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_broken_chunk_fails_after_what_came_before_it(name):
    outcomes = [read(pieces) for pieces in every_cut(BAD_BODIES[name])]

    assert {(o.head is not None, o.body, o.complete, o.failed, o.complete_at_eof) for o in outcomes} == {
        (True, b"ab", False, True, False)
    }


@pytest.mark.parametrize("framing", [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b""])
def test_response_to_head_has_no_body_and_its_connection_is_not_used_again(framing):
    outcomes = [read(pieces, head_only=True) for pieces in every_cut(OK + framing + b"\r\n")]

    assert {(o.head is not None, o.body, o.complete, o.failed, o.reusable) for o in outcomes} == {
        (True, b"", True, False, False)
    }


def test_body_that_follows_a_response_to_head_is_not_delivered():
    outcome = read([OK + b"Content-Length: 2\r\n\r\nab"], head_only=True)

    assert (outcome.body, outcome.complete, outcome.reusable) == (b"", True, False)


@pytest.mark.parametrize(
    "limits",
    [
        UpstreamSettings(max_head_bytes=100),
        UpstreamSettings(max_headers=3),
    ],
)
@pytest.mark.parametrize("fits", [True, False])
def test_head_is_limited_in_bytes_and_in_headers(limits, fits):
    count = 2 if fits else 4
    transcript = OK + b"X-Filler: 0123456789012345\r\n" * count + b"Content-Length: 0\r\n\r\n"

    outcomes = [read(pieces, limits=limits) for pieces in every_cut(transcript)]

    assert {(o.head is not None, o.complete, o.failed) for o in outcomes} == {(fits, fits, not fits)}


@pytest.mark.parametrize(
    ("transcript", "size"),
    [
        (OK + b"A:\r\n" * 30 + b"Content-Length: 0\r\n\r\n", 188),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 2 + OK + b"Content-Length: 0\r\n\r\n", 88),
    ],
)
@pytest.mark.parametrize("room", [0, -1])
def test_a_head_counts_as_its_names_values_and_line_ends_and_so_do_interim_ones(transcript, size, room):
    limits = UpstreamSettings(max_head_bytes=size + room)

    outcomes = [read(pieces, limits=limits) for pieces in every_cut(transcript)]

    assert {(o.complete, o.failed) for o in outcomes} == {(room == 0, room != 0)}


def test_head_that_never_ends_is_refused_at_the_limit():
    reader = ResponseReader(UpstreamSettings(max_head_bytes=100))
    reader.feed(b"HTTP/1.1 200 OK\r\nX: ")
    reader.feed(b"y" * 80)
    before = reader.error
    reader.feed(b"y")
    reader.feed(b"y")

    assert (before, reader.error) == (None, "over 100 bytes of response head")


@pytest.mark.parametrize(("interims", "accepted"), [(2, True), (3, False)])
def test_interim_responses_are_limited_in_number(interims, accepted):
    transcript = b"HTTP/1.1 100 Continue\r\n\r\n" * interims + LENGTH_2 + b"ab"

    outcomes = [read(p, limits=UpstreamSettings(max_informational=2)) for p in every_cut(transcript)]

    assert {(o.complete, o.failed) for o in outcomes} == {(accepted, not accepted)}


@pytest.mark.parametrize("flood", [b"0\r\nT: " + b"x" * 200, b"1;" + b"x" * 200])
def test_trailers_and_chunk_extensions_are_limited(flood):
    limits = UpstreamSettings(max_head_bytes=100)
    reader = ResponseReader(limits)
    for piece in [CHUNKED, b"2\r\nab\r\n", *[flood[i : i + 10] for i in range(0, len(flood), 10)]]:
        reader.feed(piece)
        reader.take_body()

    assert reader.error == "over 100 bytes of trailers or chunk extensions"


def test_long_body_does_not_count_as_head():
    reader = ResponseReader(UpstreamSettings(max_head_bytes=100))
    reader.feed(CHUNKED)
    for _ in range(50):
        reader.feed(b"A\r\n0123456789\r\n")

    assert (reader.error, reader.take_body()) == (None, b"0123456789" * 50)


def test_reader_takes_one_response_after_another():
    reader = ResponseReader(UpstreamSettings())
    bodies = []
    for body in (b"ab", b"cd"):
        reader.begin(head_only=False)
        assert not reader.started
        reader.feed(LENGTH_2 + body)
        bodies.append(reader.take_body())
        assert reader.reusable

    assert bodies == [b"ab", b"cd"]


def test_only_the_first_fault_is_told():
    reader = ResponseReader(UpstreamSettings())
    reader.feed(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")

    assert reader.error == "status 101"


SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"


class TestUpgrade:
    @staticmethod
    def read(*pieces, upgrade=True):
        reader = ResponseReader(UpstreamSettings())
        reader.begin(head_only=False, upgrade=upgrade)
        body = b""
        for piece in pieces:
            reader.feed(piece)
            body += reader.take_body()
        return reader, body

    def test_bytes_after_a_101_that_was_asked_for_are_the_body_wherever_they_are_cut(self):
        transcript = SWITCH + b"\x81\x02hiHTTP/1.1 200 OK\r\n\r\n\x00"
        for cut in range(len(transcript) + 1):
            reader, body = self.read(transcript[:cut], transcript[cut:])
            assert (reader.head.status, reader.upgraded, reader.error, reader.complete) == (
                101,
                True,
                None,
                False,
            )
            assert body == b"\x81\x02hiHTTP/1.1 200 OK\r\n\r\n\x00"

    def test_the_end_of_the_input_completes_it_and_nothing_is_reused(self):
        reader, _ = self.read(SWITCH, b"bytes")

        assert reader.end_of_input()
        assert not reader.reusable

    def test_a_length_in_the_head_frames_nothing(self):
        head = SWITCH.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n")
        reader, body = self.read(head, b"more than two")

        assert body == b"more than two"
        assert reader.end_of_input()

    def test_other_interim_responses_may_come_first(self):
        reader, body = self.read(b"HTTP/1.1 103 Early Hints\r\n\r\n" + SWITCH + b"x")
        assert (reader.head.status, body) == (101, b"x")

    def test_an_endpoint_that_does_not_agree_gives_an_ordinary_response(self):
        reader, body = self.read(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno")
        assert (reader.head.status, body, reader.upgraded, reader.complete) == (404, b"no", False, True)
        assert reader.reusable

    @pytest.mark.parametrize(
        "head",
        [
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n",
        ],
    )
    def test_a_101_that_does_not_say_to_what_is_refused(self, head):
        assert self.read(head)[0].error == "status 101"

    def test_a_101_that_nobody_asked_for_is_refused(self):
        assert self.read(SWITCH, upgrade=False)[0].error == "status 101"

    def test_the_next_response_of_the_reader_is_read_as_http_again(self):
        reader, _ = self.read(SWITCH, b"bytes")
        reader.discard()
        reader.begin(head_only=False)
        reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        assert (reader.head.status, reader.complete) == (200, True)
