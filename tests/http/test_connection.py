"""One connection, without a socket: writing, delivering, deadlines, endings."""

import pytest

from epp.http.types import ErrorKind, UpstreamFailure
from tests.http.fakes import Line, RecordingSink

LENGTH_2 = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNFRAMED = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.fixture
def sink():
    return RecordingSink()


def failure(kind, detail, *, written=True):
    return UpstreamFailure(kind, detail, written)


class TestWriting:
    def test_small_body_goes_out_in_one_write_with_the_head(self, sink):
        line = Line()
        line.send(sink, b"x" * 16_384)

        assert line.transport.written == [b"HEAD|" + b"x" * 16_384]

    def test_nothing_is_written_before_the_connection_is_made(self, sink):
        line = Line(connects=False)
        exchange = line.send(sink, b"body")
        before = (exchange.written, line.transport.written[:])
        line.connect()

        assert before == (False, [])
        assert (exchange.written, line.transport.written) == (True, [b"HEAD|body"])

    def test_large_body_goes_out_in_slices_that_wait_for_the_transport(self, sink):
        line = Line()
        body = bytes(range(256)) * 4096
        line.connection.pause_writing()
        line.send(sink, body)
        paused = line.transport.written[:]
        line.connection.resume_writing()

        assert paused == [b"HEAD|"]
        assert [len(piece) for piece in line.transport.written] == [5, 262_144, 262_144, 262_144, 262_144]
        assert b"".join(line.transport.written) == b"HEAD|" + body

    def test_writing_stops_when_the_transport_is_full_in_the_middle_of_a_body(self, sink):
        line = Line()
        line.transport.on_write = line.connection.pause_writing
        line.send(sink, b"x" * 600_000)
        sizes = [len(piece) for piece in line.transport.written]
        line.transport.on_write = None
        line.connection.resume_writing()

        assert sizes == [5]
        assert sum(len(piece) for piece in line.transport.written) == 600_005

    def test_resuming_without_anything_left_to_write_writes_nothing(self, sink):
        line = Line()
        line.send(sink)
        line.connection.pause_writing()
        line.connection.resume_writing()

        assert line.transport.written == [b"HEAD|"]


class TestDelivery:
    def test_head_data_and_end_come_in_order_and_the_connection_is_idle_before_the_end_is_told(self, sink):
        line = Line()
        idle_at_end = []
        sink.on_end = lambda: idle_at_end.append(line.owner.idle[:])
        line.send(sink)
        line.receive(LENGTH_2 + b"ab")

        assert sink.events == [200, b"ab"]
        assert idle_at_end == [[line.connection]]

    def test_chunks_that_came_together_are_told_together(self, sink):
        line = Line()
        line.send(sink)
        line.receive(CHUNKED, b"1\r\na\r\n2\r\nbc\r\n", b"1\r\nd\r\n0\r\n\r\n")

        assert sink.events == [200, b"abc", b"d", "end"]

    def test_next_request_may_be_sent_from_within_the_end(self, sink):
        line = Line()
        second = RecordingSink()
        sink.on_end = lambda: line.send(second, reused=True)
        line.send(sink)
        line.receive(LENGTH_2 + b"ab", LENGTH_2 + b"cd")

        assert second.events == [200, b"cd", "end"]

    def test_abort_from_within_the_head_stops_everything(self, sink):
        line = Line()
        exchange = line.send(sink)
        sink.on_head = lambda head: exchange.abort()
        line.receive(LENGTH_2 + b"ab")

        assert sink.events == []
        assert line.transport.aborted
        assert line.owner.idle == []

    def test_handle_of_a_finished_exchange_does_not_touch_the_next_one(self, sink):
        line = Line()
        first = line.send(sink)
        line.receive(LENGTH_2 + b"ab")
        line.send(RecordingSink(), reused=True)
        first.pause()
        first.resume()
        first.abort()

        assert line.transport.reading
        assert not line.transport.aborted

    def test_early_response_is_delivered_but_the_connection_is_closed_with_its_unsent_body(self, sink):
        line = Line()
        line.connection.pause_writing()
        line.send(sink, b"x" * 100_000)
        line.receive(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        line.connection.resume_writing()

        assert sink.events == [413, b"no", "end"]
        assert line.transport.written == [b"HEAD|"]
        assert line.transport.aborted
        assert line.owner.idle == []

    def test_connection_with_bytes_still_in_the_transport_is_not_reused(self, sink):
        line = Line()
        line.send(sink, b"body")
        line.transport.buffered = 3
        line.receive(LENGTH_2 + b"ab")

        assert sink.events == [200, b"ab", "end"]
        assert line.transport.aborted

    @pytest.mark.parametrize(
        "transcript",
        [
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab",
            b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab",
            LENGTH_2 + b"ab" + LENGTH_2,
        ],
    )
    def test_connection_that_cannot_be_used_again_is_closed(self, sink, transcript):
        line = Line()
        line.send(sink)
        line.receive(transcript)

        assert sink.events == [200, b"ab", "end"]
        assert line.transport.aborted
        assert line.owner.idle == []

    def test_response_to_head_ends_with_its_head(self, sink):
        line = Line()
        line.send(sink, head_only=True)
        line.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")

        assert sink.events == [200, "end"]
        assert line.transport.aborted

    def test_unasked_bytes_close_an_idle_connection(self, sink):
        line = Line()
        line.send(sink)
        line.receive(LENGTH_2 + b"ab")
        line.receive(b"HTTP/1.1 408 Request Timeout\r\n\r\n")

        assert sink.events == [200, b"ab", "end"]
        assert line.transport.aborted

    def test_end_of_input_on_an_idle_connection_says_nothing(self, sink):
        line = Line()
        line.send(sink)
        line.receive(LENGTH_2 + b"ab")
        line.connection.eof_received()
        line.connection.connection_lost(None)

        assert sink.events == [200, b"ab", "end"]
        assert line.owner.closed == [line.connection]


class TestBackPressure:
    def test_pause_and_resume_reach_the_transport_once(self, sink):
        line = Line()
        exchange = line.send(sink)
        exchange.pause()
        exchange.pause()
        paused = line.transport.reading
        exchange.resume()
        exchange.resume()

        assert (paused, line.transport.reading) == (False, True)

    def test_pause_before_the_connection_is_made_holds_afterwards(self, sink):
        line = Line(connects=False)
        exchange = line.send(sink)
        exchange.pause()
        line.connect()
        paused = line.transport.reading
        exchange.resume()

        assert (paused, line.transport.reading) == (False, True)

    def test_pause_and_resume_before_the_connection_is_made_leave_it_reading(self, sink):
        line = Line(connects=False)
        exchange = line.send(sink)
        exchange.pause()
        exchange.resume()
        line.connect()

        assert line.transport.reading

    def test_connection_that_ends_paused_reads_again_when_idle(self, sink):
        line = Line()
        exchange = line.send(sink)
        sink.on_data = lambda data: exchange.pause()
        line.receive(LENGTH_2 + b"ab")

        assert line.owner.idle == [line.connection]
        assert line.transport.reading

    def test_closing_transport_is_left_alone(self, sink):
        line = Line()
        exchange = line.send(sink)
        line.transport.aborted = True
        exchange.pause()
        exchange.resume()

        assert line.transport.reading


class TestEndings:
    @pytest.mark.parametrize(
        ("received", "reused", "kind", "events"),
        [
            (b"", False, ErrorKind.BROKEN, []),
            (b"", True, ErrorKind.CLOSED_REUSED, []),
            (b"H", True, ErrorKind.BROKEN, []),
            (b"HTTP/1.1 100 Continue\r\n\r\n", True, ErrorKind.BROKEN, []),
            (b"HTTP/1.1 200 OK\r\nContent-Le", False, ErrorKind.BROKEN, []),
            (LENGTH_2, True, ErrorKind.ABORTED_AFTER_HEAD, [200]),
            (LENGTH_2 + b"a", False, ErrorKind.ABORTED_AFTER_HEAD, [200, b"a"]),
            (CHUNKED + b"2\r\nab\r\n", False, ErrorKind.ABORTED_AFTER_HEAD, [200, b"ab"]),
        ],
    )
    @pytest.mark.parametrize("by_reset", [False, True])
    def test_lost_connection_is_told_by_how_far_the_response_came(
        self, sink, received, reused, kind, events, by_reset
    ):
        line = Line()
        line.send(sink, reused=reused)
        line.receive(*[received] if received else [])
        if by_reset:
            line.connection.connection_lost(ConnectionResetError("reset by peer"))
        else:
            line.connection.eof_received()
            line.connection.connection_lost(None)

        detail = "reset by peer" if by_reset else "closed by the endpoint"
        assert sink.events == [*events, failure(kind, detail)]
        assert line.owner.closed == [line.connection]

    def test_end_of_input_completes_a_body_without_framing(self, sink):
        line = Line()
        line.send(sink)
        line.receive(UNFRAMED + b"abc")
        line.connection.eof_received()

        assert sink.events == [200, b"abc", "end"]
        assert line.transport.aborted

    def test_close_without_a_reason_completes_a_body_without_framing(self, sink):
        line = Line()
        line.send(sink)
        line.receive(UNFRAMED + b"abc")
        line.connection.connection_lost(None)

        assert sink.events == [200, b"abc", "end"]

    def test_reset_does_not_complete_a_body_without_framing(self, sink):
        line = Line()
        line.send(sink)
        line.receive(UNFRAMED + b"abc")
        line.connection.connection_lost(ConnectionResetError("reset by peer"))

        assert sink.events == [200, b"abc", failure(ErrorKind.ABORTED_AFTER_HEAD, "reset by peer")]

    def test_close_without_end_of_input_is_a_failure_of_a_framed_body(self, sink):
        line = Line()
        line.send(sink)
        line.receive(LENGTH_2)
        line.connection.connection_lost(None)

        assert sink.events == [200, failure(ErrorKind.ABORTED_AFTER_HEAD, "closed by the endpoint")]

    def test_bad_head_is_a_protocol_failure(self, sink):
        line = Line()
        line.send(sink)
        line.receive(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")

        detail = "Invalid character in Content-Length"
        assert sink.events == [failure(ErrorKind.PROTOCOL, detail)]
        assert line.transport.aborted

    def test_broken_chunk_is_an_abort_after_what_came_before_it(self, sink):
        line = Line()
        line.send(sink)
        line.receive(CHUNKED + b"2\r\nab\r\nzz\r\n")

        detail = "Invalid character in chunk size"
        assert sink.events == [200, b"ab", failure(ErrorKind.ABORTED_AFTER_HEAD, detail)]

    def test_abort_is_silent_and_final(self, sink):
        line = Line()
        exchange = line.send(sink)
        line.receive(LENGTH_2)
        exchange.abort()
        exchange.abort()
        line.connection.connection_lost(None)

        assert sink.events == [200]
        assert line.transport.aborted
        assert line.owner.closed == [line.connection]

    def test_connection_made_after_an_abort_is_closed(self, sink):
        line = Line(connects=False)
        line.send(sink).abort()
        line.connect()

        assert sink.events == []
        assert line.transport.aborted
        assert line.transport.written == []

    def test_connect_failure_is_told_once_and_nothing_was_written(self, sink):
        line = Line(connects=False)
        line.send(sink)
        line.connection.connect_failed(ErrorKind.CONNECT, "refused")
        line.connection.connect_failed(ErrorKind.CONNECT_TIMEOUT, "late")

        assert sink.events == [failure(ErrorKind.CONNECT, "refused", written=False)]
        assert line.owner.closed == [line.connection]

    def test_next_request_may_be_sent_from_within_a_failure(self, sink):
        line, other = Line(), Line()
        second = RecordingSink()
        sink.on_failure = lambda failure: other.send(second)
        line.send(sink)
        line.connection.eof_received()
        other.receive(LENGTH_2 + b"ab")

        assert second.events == [200, b"ab", "end"]


class TestFaultySinks:
    @pytest.mark.parametrize(
        ("raise_in", "kind", "events"),
        [
            ("on_head", ErrorKind.ABORTED_AFTER_HEAD, [200]),
            ("on_data", ErrorKind.ABORTED_AFTER_HEAD, [200, b"ab"]),
        ],
    )
    def test_exception_of_a_sink_ends_the_exchange_and_is_reported_as_what_it_is(
        self, raise_in, kind, events
    ):
        line = Line()
        sink = RecordingSink(raise_in=raise_in)
        line.send(sink)
        line.receive(LENGTH_2 + b"ab")

        assert sink.events == [*events, failure(kind, "the receiver failed")]
        assert [str(context["exception"]) for context in line.timers.reported] == [raise_in]
        assert line.transport.aborted

    def test_exception_at_the_end_leaves_the_connection_idle(self):
        line = Line()
        line.send(RecordingSink(raise_in="on_end"))
        line.receive(LENGTH_2 + b"ab")

        assert line.owner.idle == [line.connection]
        assert [str(context["exception"]) for context in line.timers.reported] == ["on_end"]

    def test_exception_in_a_failure_is_reported(self):
        line = Line()
        line.send(RecordingSink(raise_in="on_failure"))
        line.connection.eof_received()

        assert [str(context["exception"]) for context in line.timers.reported] == ["on_failure"]

    def test_sink_that_aborts_and_raises_is_not_called_again(self, sink):
        line = Line()
        exchange = line.send(sink)

        def abort_and_raise(head):
            exchange.abort()
            raise RuntimeError("on_head")

        sink.on_head = abort_and_raise
        line.receive(LENGTH_2 + b"ab")

        assert sink.events == []
        assert len(line.timers.reported) == 1


class TestDeadlines:
    def test_no_head_in_time_is_a_first_byte_timeout(self, sink):
        line = Line(first_byte_timeout_s=600.0, idle_timeout_s=300.0)
        line.send(sink)
        line.timers.advance(599.9)
        before = sink.events[:]
        line.timers.advance(0.1)

        assert before == []
        assert sink.events == [failure(ErrorKind.FIRST_BYTE_TIMEOUT, "no response head within 600 s")]
        assert line.transport.aborted

    def test_what_an_endpoint_sent_while_the_loop_stood_still_is_in_time(self, sink):
        line = Line(first_byte_timeout_s=10.0)
        line.send(sink)
        line.timers.stand_still(60.0)
        line.receive(LENGTH_2 + b"ab")

        assert sink.events[-1] == "end"
        assert not line.transport.aborted

    def test_an_endpoint_that_stays_silent_after_a_standstill_is_given_up(self, sink):
        line = Line(first_byte_timeout_s=10.0)
        line.send(sink)
        line.timers.stand_still(60.0)
        before = sink.events[:]
        line.timers.advance(5.0)

        assert before == []
        assert sink.events == [failure(ErrorKind.FIRST_BYTE_TIMEOUT, "no response head within 10 s")]

    def test_interim_response_starts_the_wait_for_the_head_again(self, sink):
        line = Line(first_byte_timeout_s=10.0)
        line.send(sink)
        line.timers.advance(9)
        line.receive(b"HTTP/1.1 100 Continue\r\n\r\n")
        line.timers.advance(9)
        before = sink.events[:]
        line.timers.advance(1)

        assert before == []
        assert [event.kind for event in sink.events] == [ErrorKind.FIRST_BYTE_TIMEOUT]

    def test_head_without_a_body_may_wait_for_a_prefill(self, sink):
        line = Line(first_byte_timeout_s=600.0, idle_timeout_s=30.0)
        line.send(sink)
        line.timers.advance(500)
        line.receive(CHUNKED)
        line.timers.advance(599)
        before = sink.events[:]
        line.timers.advance(1)

        assert before == [200]
        assert sink.events == [200, failure(ErrorKind.IDLE_TIMEOUT, "no body within 600 s")]

    def test_silence_inside_a_body_is_an_idle_timeout(self, sink):
        line = Line(first_byte_timeout_s=600.0, idle_timeout_s=30.0)
        line.send(sink)
        line.receive(CHUNKED + b"2\r\nab\r\n")
        for _ in range(10):
            line.timers.advance(29)
            line.receive(b"1\r\nc\r\n")
        before = len(sink.events)
        line.timers.advance(30)

        assert before == 12
        assert sink.events[-1] == failure(ErrorKind.IDLE_TIMEOUT, "nothing within 30 s")

    def test_total_timeout_counts_from_the_start_however_busy_the_body(self, sink):
        line = Line(total_timeout_s=60.0)
        line.send(sink)
        line.receive(CHUNKED)
        for _ in range(59):
            line.timers.advance(1)
            line.receive(b"1\r\nc\r\n")
        before = len(sink.events)
        line.timers.advance(1)

        assert before == 60
        assert sink.events[-1] == failure(ErrorKind.TOTAL_TIMEOUT, "not complete within 60 s")

    def test_total_timeout_holds_while_connecting(self, sink):
        line = Line(connects=False, total_timeout_s=60.0)
        line.send(sink)
        line.timers.advance(60)

        assert sink.events == [failure(ErrorKind.TOTAL_TIMEOUT, "not complete within 60 s", written=False)]

    def test_other_timeouts_do_not_run_while_connecting(self, sink):
        line = Line(connects=False, first_byte_timeout_s=10.0)
        line.send(sink)
        line.timers.advance(100)
        line.connect()
        line.timers.advance(9)
        before = sink.events[:]
        line.timers.advance(1)

        assert before == []
        assert [event.kind for event in sink.events] == [ErrorKind.FIRST_BYTE_TIMEOUT]

    def test_paused_exchange_waits_for_its_client_without_limit(self, sink):
        line = Line(idle_timeout_s=30.0)
        exchange = line.send(sink)
        line.receive(CHUNKED + b"2\r\nab\r\n")
        exchange.pause()
        line.timers.advance(1000)
        exchange.resume()
        line.timers.advance(29)
        before = sink.events[:]
        line.timers.advance(1)

        assert before == [200, b"ab"]
        assert [event.kind for event in sink.events[2:]] == [ErrorKind.IDLE_TIMEOUT]

    def test_progress_of_a_large_body_starts_the_wait_for_the_head_again(self, sink):
        line = Line(first_byte_timeout_s=10.0)
        line.connection.pause_writing()
        line.send(sink, b"x" * 100_000)
        line.timers.advance(9)
        line.connection.resume_writing()
        line.timers.advance(9)
        before = sink.events[:]
        line.timers.advance(1)

        assert before == []
        assert [event.kind for event in sink.events] == [ErrorKind.FIRST_BYTE_TIMEOUT]

    def test_timeouts_of_zero_are_none(self, sink):
        line = Line(first_byte_timeout_s=0.0, idle_timeout_s=0.0, total_timeout_s=0.0)
        line.send(sink)

        assert line.timers.armed == 0

    def test_chunks_and_requests_arm_no_timers_of_their_own(self, sink):
        line = Line()
        for number in range(5):
            line.send(sink, reused=number > 0)
            line.receive(CHUNKED, *[b"1\r\na\r\n"] * 50, b"0\r\n\r\n")

        assert line.timers.armed == 1

    def test_timer_of_an_idle_connection_is_not_armed_again_until_the_next_request(self, sink):
        line = Line(first_byte_timeout_s=10.0)
        line.send(sink)
        line.receive(LENGTH_2 + b"ab")
        line.timers.advance(1000)
        idle = line.timers.armed
        line.send(sink, reused=True)
        line.timers.advance(10)

        assert idle == 1
        assert sink.events[-1].kind is ErrorKind.FIRST_BYTE_TIMEOUT

    def test_deadline_of_a_request_on_an_old_timer_is_exact(self, sink):
        line = Line(first_byte_timeout_s=10.0)
        line.send(sink)
        line.receive(LENGTH_2 + b"ab")
        line.timers.advance(7)
        line.send(sink, reused=True)
        line.timers.advance(9.5)
        before = len(sink.events)
        line.timers.advance(0.5)

        assert before == 3
        assert sink.events[-1].kind is ErrorKind.FIRST_BYTE_TIMEOUT

    def test_timer_is_cancelled_when_the_connection_is_lost(self, sink):
        line = Line()
        line.send(sink)
        line.connection.connection_lost(None)

        assert [timer.cancelled for timer in line.timers.timers] == [True]

    def test_connection_lost_without_timers_is_quiet(self, sink):
        line = Line(first_byte_timeout_s=0.0, idle_timeout_s=0.0)
        line.send(sink)
        line.connection.connection_lost(None)

        assert [event.kind for event in sink.events] == [ErrorKind.BROKEN]
