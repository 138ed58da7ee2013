"""The tape: events in order, in pieces, until nobody takes them."""

from epp.endpoints.types import EndpointMetrics
from epp.recording.events import Metrics, Tick
from epp.recording.framing import FIRST_LINE, frame
from epp.recording.tape import Tape
from tests.recording.kit import events_of, header


class Sink:
    """Takes `room` pieces."""

    def __init__(self, room=1_000):
        self.pieces, self.room = [], room

    def __call__(self, piece):
        self.pieces.append(bytes(piece))
        return len(self.pieces) < self.room

    def events(self):
        return events_of(FIRST_LINE + b"".join(map(frame, self.pieces)))[0]


def test_events_wait_for_others_at_most_a_second():
    sink = Sink()
    tape = Tape(header(), sink)

    for now in (10.0, 10.4, 10.9, 11.1):
        tape.write(Tick(now))
        tape.passed(now)

    assert len(sink.pieces) == 3  # the header, the first event, the others
    assert sink.events() == [Tick(10.0), Tick(10.4), Tick(10.9), Tick(11.1)]


def test_a_piece_is_handed_on_when_it_is_large():
    sink = Sink()
    tape = Tape(header(), sink)

    for now in range(10_000):
        tape.write(Tick(float(now)))

    assert len(sink.pieces) >= 2
    assert all(len(piece) < 70_000 for piece in sink.pieces)


def test_nothing_is_kept_when_nobody_takes_it():
    sink = Sink(room=1)
    tape = Tape(header(), sink)
    assert tape.going is False

    for now in range(100_000):
        tape.write(Tick(float(now)))

    assert (len(sink.pieces), len(tape._buffer)) == (1, 0)


def test_a_scrape_is_what_differs_from_the_last_one():
    sink = Sink()
    tape = Tape(header(), sink)
    first = EndpointMetrics(waiting=1.0, running=2.0, engine="vllm")

    tape.scraped("a:1", 5, first, 1.0)
    tape.scraped("a:1", 5, first, 2.0)
    tape.scraped("a:1", 5, EndpointMetrics(waiting=3.0, running=2.0), 3.0)
    tape.keep_only(frozenset({"b:1"}))
    tape.scraped("a:1", 6, EndpointMetrics(waiting=3.0), 4.0)
    tape.stop("the router stopped")

    assert sink.events() == [
        Metrics(1.0, "a:1", 5, {0: 1.0, 1: 2.0, 16: "vllm"}),
        Metrics(2.0, "a:1", 5, {}),
        Metrics(3.0, "a:1", 5, {0: 3.0, 16: None}),
        Metrics(4.0, "a:1", 6, {0: 3.0}),
    ]
