"""The bytes of a recording: whatever is cut or damaged is said, and all before it is read."""

import io

import pytest

from epp.recording.events import Opened, Stopped, Tick
from epp.recording.framing import FIRST_LINE, Entries, RecordingError, add_entry, frame
from tests.recording.kit import events_of, header

TICKS = [[Tick(1.0), Tick(2.0)], [Opened(0, 3.0, "r", 0)], [Tick(4.0), Stopped("the router stopped")]]


def recording(pieces=TICKS, first=None):
    """A recording whose frames hold these events."""
    frames = [[first or header()], *pieces]
    return FIRST_LINE + b"".join(frame(packed(events)) for events in frames)


def packed(events):
    """Entries one after the other."""
    buffer = bytearray()
    for event in events:
        add_entry(buffer, event)
    return buffer


def test_a_whole_recording_gives_every_event_and_why_it_ends():
    events, entries = events_of(recording())

    assert entries.header == header()
    assert events == [Tick(1.0), Tick(2.0), Opened(0, 3.0, "r", 0), Tick(4.0)]
    assert (entries.complete, entries.ending) == (True, "the router stopped")


def test_one_that_was_cut_anywhere_says_so_and_gives_what_is_before():
    ends = [len(recording(TICKS[:frames])) for frames in range(3)]
    whole = recording()

    for length in range(ends[0], len(whole)):
        events, entries = events_of(whole[:length])

        frames = sum(length >= end for end in ends) - 1
        fault = "it has no end" if length in ends else "it was cut off"
        assert entries.complete is False
        assert entries.ending.startswith(fault)
        assert events == [event for piece in TICKS[:frames] for event in piece]


def test_one_without_an_end_says_how_far_it_goes():
    content = recording(TICKS[:1])
    _, entries = events_of(content)

    assert entries.ending == (
        f"it has no end, since the router was killed or still runs, after 2 entries (byte {len(content)})"
    )


def test_a_byte_that_changed_is_found():
    content = bytearray(recording())
    content[-3] ^= 1

    events, entries = events_of(bytes(content))

    assert events == [Tick(1.0), Tick(2.0), Opened(0, 3.0, "r", 0)]
    assert entries.ending.startswith("it is damaged, after 3 entries (byte ")


def test_an_entry_of_a_kind_that_is_unknown_ends_it():
    unknown = bytearray()
    unknown += (3).to_bytes(4, "little") + b"\x92\x63\x01"  # [99, 1]
    content = recording(TICKS[:1]) + frame(unknown)

    events, entries = events_of(content)

    assert events == [Tick(1.0), Tick(2.0)]
    assert entries.ending.startswith("entry 3 cannot be read (Invalid value 99")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it does not begin as a recording of epp does"),
        (b'{"ts": 1}\n', "it does not begin as a recording of epp does"),
        (b"epp recording 2\n", "its format is 2; this version of epp reads format 1"),
        (FIRST_LINE, "it has no header: it has no end"),
        (FIRST_LINE + b"\x01", "it has no header: it was cut off"),
        (FIRST_LINE + frame(packed([Tick(1.0)])), "its header cannot be read: Expected `object`"),
    ],
)
def test_what_is_no_recording_is_refused(content, said):
    with pytest.raises(RecordingError, match=said):
        Entries(io.BytesIO(content))
