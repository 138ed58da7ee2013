"""Frames of a WebSocket are told apart however they are cut."""

import pytest

from epp.proxy.frames import GOING_AWAY, FrameTracker

# A text frame, an empty ping, 126 and 127 with their longer lengths, a masked frame, a close frame.
FRAMES = [
    b"\x81\x02hi",
    b"\x89\x00",
    b"\x82\x7e\x00\x80" + b"x" * 128,
    b"\x82\x7f" + (70_000).to_bytes(8, "big") + b"y" * 70_000,
    b"\x81\x82abcdhi",
    b"\x82\xfe\x00\x80abcd" + b"z" * 128,
    b"\x88\x02\x03\xe8",
]


def test_a_close_frame_of_ours_has_status_1001_and_no_mask():
    assert bytes([0x88, 2]) + (1001).to_bytes(2, "big") == GOING_AWAY


@pytest.mark.parametrize("frame", FRAMES)
def test_between_frames_is_only_before_and_behind_a_frame(frame):
    for cut in [*range(1, min(len(frame), 40)), len(frame) - 1]:
        tracker = FrameTracker()
        assert tracker.between_frames
        tracker.feed(frame[:cut])
        assert not tracker.between_frames
        tracker.feed(frame[cut:])
        assert tracker.between_frames


def test_many_frames_in_one_piece_and_byte_by_byte():
    whole = b"".join(FRAMES)
    for pieces in ([whole], [bytes([byte]) for byte in whole], [whole[:-1], whole[-1:]]):
        tracker = FrameTracker()
        for piece in pieces:
            tracker.feed(piece)
        assert tracker.between_frames


def test_the_rest_of_a_frame_ends_where_the_next_one_begins():
    tracker = FrameTracker()
    tracker.feed(b"\x81\x05ab")
    assert tracker.rest_of_frame(b"c") == b"c"
    assert tracker.rest_of_frame(b"de\x81\x02hi") == b"de"
    assert tracker.between_frames
    assert tracker.rest_of_frame(b"\x81\x02hi") == b""


def test_the_rest_of_a_frame_whose_head_is_not_complete():
    tracker = FrameTracker()
    tracker.feed(b"\x82\x7e\x00")
    assert tracker.rest_of_frame(b"\x03abc\x89\x00") == b"\x03abc"
    assert tracker.between_frames
