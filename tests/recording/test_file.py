"""The file: bounded, private, ended with a reason, and never in the way of the router."""

from pathlib import Path

import pytest

from epp.recording.events import Tick
from epp.recording.file import RecordingFile
from epp.recording.tape import Tape
from tests.recording.kit import events_of, header


def recorded(file, count, start=0):
    """`count` events on a tape of `file`, each a piece."""
    tape = Tape(header(), file.put)
    for now in range(start, start + count):
        tape.write(Tick(float(now)))
        tape.passed(float(2 * now + 10))
    return tape


def test_what_was_written_is_read(tmp_path):
    file = RecordingFile(tmp_path / "run.rec", 0)
    tape = recorded(file, 3)
    tape.stop("the router stopped")
    file.close()
    file.close()

    events, entries = events_of((tmp_path / "run.rec").read_bytes())

    assert events == [Tick(0.0), Tick(1.0), Tick(2.0)]
    assert (entries.complete, entries.ending) == (True, "the router stopped")
    assert (tmp_path / "run.rec").stat().st_mode & 0o777 == 0o600


def test_the_last_recording_is_kept(tmp_path):
    (tmp_path / "run.rec").write_bytes(b"the last one")

    RecordingFile(tmp_path / "run.rec", 0).close()

    assert (tmp_path / "run.rec.1").read_bytes() == b"the last one"


def test_it_ends_below_its_limit_and_says_so(tmp_path):
    said = []
    file = RecordingFile(tmp_path / "run.rec", 1_500, said.append)
    tape = recorded(file, 200)
    file.close()

    events, entries = events_of((tmp_path / "run.rec").read_bytes())

    assert said == ["the limit of 1,500 bytes was reached"]
    assert (entries.complete, entries.ending) == (True, "the limit of 1,500 bytes was reached")
    assert 10 < len(events) < 200
    assert events == [Tick(float(n)) for n in range(len(events))]
    assert (tmp_path / "run.rec").stat().st_size < 1_600
    tape.write(Tick(1e6))
    tape.passed(1e6)
    assert tape.going is False


def test_a_disk_that_does_not_keep_up_ends_it(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("epp.recording.file._MOST_WAITING_BYTES", -1)
    file = RecordingFile(tmp_path / "run.rec", 0, said.append)

    assert file.put(bytearray(b"piece")) is False
    file.close()

    assert said == ["the disk did not keep up"]


def test_a_disk_that_is_full_ends_it(tmp_path):
    said = []
    file = RecordingFile(tmp_path / "run.rec", 0, said.append)
    file._stream.close()
    with Path("/dev/full").open("wb") as file._stream:
        tape = recorded(file, 1)
        file.close()
    tape.write(Tick(1e6))
    tape.passed(1e6)

    assert said == ["writing failed: No space left on device; its end could not be written"]
    assert tape.going is False


def test_a_file_that_cannot_be_made_is_said_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        RecordingFile(tmp_path / "nowhere" / "run.rec", 0)
