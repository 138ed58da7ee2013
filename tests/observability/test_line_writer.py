"""Lines reach their file in order, and never hold the caller."""

import io
import threading

import pytest

from epp.observability import line_writer
from epp.observability.line_writer import LineWriter


def test_lines_are_written_in_order_at_a_flush(tmp_path):
    path = tmp_path / "access.log"
    writer = LineWriter(path)

    for n in range(3):
        writer.write([b"line %d" % n])
    assert path.read_bytes() == b""
    writer.flush()

    assert path.read_bytes() == b"line 0\nline 1\nline 2\n"
    writer.close()


def test_what_is_there_stays(tmp_path):
    path = tmp_path / "access.log"
    path.write_bytes(b"old\n")
    writer = LineWriter(path)

    writer.write([b"new"])
    writer.close()

    assert path.read_bytes() == b"old\nnew\n"


def test_close_writes_what_waits_and_may_be_called_again(tmp_path):
    path = tmp_path / "access.log"
    writer = LineWriter(path)
    writer.write([b"a"])

    writer.close()
    writer.close()

    assert path.read_bytes() == b"a\n"


def test_the_thread_writes_without_a_flush(tmp_path):
    path = tmp_path / "access.log"
    writer = LineWriter(path, interval_s=0.001)
    flushed = threading.Event()
    real_flush = writer.flush

    def flush() -> None:
        real_flush()
        if path.stat().st_size:
            flushed.set()

    writer.flush = flush  # type: ignore[method-assign]
    writer.start()
    writer.write([b"a"])

    assert flushed.wait(20)
    writer.close()
    assert path.read_bytes() == b"a\n"


def test_a_stream_is_written_to_and_left_open():
    stream = io.BytesIO()
    writer = LineWriter(stream=stream)
    writer.write([b"a"])
    writer.reopen()
    writer.flush()
    writer.close()

    assert stream.getvalue() == b"a\n"


def test_after_rotation_lines_go_to_the_new_file(tmp_path):
    path = tmp_path / "access.log"
    writer = LineWriter(path)
    writer.write([b"one"])
    writer.flush()
    path.rename(tmp_path / "access.log.1")
    writer.write([b"two"])
    writer.flush()

    writer.reopen()
    writer.write([b"three"])
    writer.flush()
    writer.close()

    assert (tmp_path / "access.log.1").read_bytes() == b"one\ntwo\n"
    assert path.read_bytes() == b"three\n"


def test_when_the_new_file_cannot_be_opened_the_old_one_goes_on(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "access.log"
    writer = LineWriter(path)
    folder.rename(tmp_path / "moved")

    writer.reopen()
    writer.write([b"a"])
    writer.flush()
    writer.close()

    assert (tmp_path / "moved" / "access.log").read_bytes() == b"a\n"
    assert writer.dropped == 0


def test_reopening_after_the_end_does_nothing(tmp_path):
    writer = LineWriter(tmp_path / "access.log")
    writer.close()

    writer.reopen()
    writer.flush()

    assert writer.dropped == 0


class BrokenStream(io.BytesIO):
    def write(self, _data) -> int:
        raise OSError(28, "No space left on device")


def test_lines_that_cannot_be_written_are_dropped_and_counted():
    writer = LineWriter(stream=BrokenStream())
    writer.write([b"a"])
    writer.write([b"b"])

    writer.flush()

    assert writer.dropped == 2


def test_a_stream_that_somebody_closed_drops_lines():
    stream = io.BytesIO()
    writer = LineWriter(stream=stream)
    stream.close()
    writer.write([b"a"])

    writer.flush()

    assert writer.dropped == 1


def test_lines_after_the_end_are_dropped(tmp_path):
    writer = LineWriter(tmp_path / "access.log")
    writer.close()

    writer.write([b"late"])
    writer.flush()

    assert writer.dropped == 1


def test_when_too_many_lines_wait_new_ones_are_dropped(monkeypatch):
    monkeypatch.setattr(line_writer, "_MAX_LINES", 2)
    stream = io.BytesIO()
    writer = LineWriter(stream=stream)

    for n in range(5):
        writer.write([b"%d" % n])
    writer.flush()
    writer.write([b"again"])
    writer.flush()

    assert stream.getvalue() == b"0\n1\nagain\n"
    assert writer.dropped == 3


def test_a_file_that_cannot_be_opened_is_an_error_at_once(tmp_path):
    with pytest.raises(OSError):
        LineWriter(tmp_path / "missing" / "access.log")


def test_it_needs_one_destination(tmp_path):
    with pytest.raises(ValueError, match="either a path or a stream"):
        LineWriter()
    with pytest.raises(ValueError, match="either a path or a stream"):
        LineWriter(tmp_path / "x", stream=io.BytesIO())
