"""`epp simulate --replay`: what was decided, decided again, and what is wrong with a recording."""

import json

import msgspec
import pytest

from epp.cli import main
from epp.director.types import EndReason
from epp.recording.events import Ended, Tick
from tests.director.core import TIERED
from tests.recording.kit import RecordedPool, header, told
from tests.recording.test_framing import recording

PROMPT = "the quick brown fox jumps over the lazy dog " * 40
OTHER = TIERED.replace("{pluginRef: queue-scorer, weight: 2}", "{pluginRef: queue-scorer, weight: 0.1}")


@pytest.fixture
def run(tmp_path):
    """A recording of ten requests."""
    pool = RecordedPool()
    for i in (1, 2, 3):
        pool.scrape(i, 0.5, waiting=3.0 - i, running=1.0, kv_usage=0.3 * i)
    for n in range(10):
        pool.serve(PROMPT[: 400 * (n % 4)] + str(n), 1.0 + n)
    path = tmp_path / "run.rec"
    path.write_bytes(pool.written())
    return path


def replay(path, *more):
    """Its exit status."""
    return main(["simulate", "--replay", str(path), *more])


def test_equal_decisions_are_counted(run, capsys):
    assert replay(run) == 0
    assert capsys.readouterr().out == (
        f"{run}: 10 requests in 10.0 s, test ({told(TIERED).hash})\n"
        "decisions: 10; equal in endpoint and scores: 10; different: 0\n"
        "ends: the router stopped\n"
    )


def test_programs_get_json_and_the_decision_log(run, capsys, tmp_path):
    assert replay(run, "--format", "json", "--decisions", str(tmp_path / "log.jsonl")) == 0
    shown = json.loads(capsys.readouterr().out)
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]

    assert (shown["decisions"], shown["different"], shown["complete"]) == (10, 0, True)
    assert len(log) == 10
    assert [list(log[3]), log[3]["arrived_s"], len(log[3]["candidates"])] == [
        ["request", "arrived_s", "first_token_s", "picked", "profile", "requested_model", "model", "adapter",
         "prompt_tokens", "weight_sum", "candidates", "excluded"],
        4.0,
        3,
    ]  # fmt: skip


def test_another_configuration_is_said_to_differ_and_so_are_its_decisions(run, capsys, tmp_path):
    (tmp_path / "other.yaml").write_text(OTHER)

    assert replay(run, "--config", str(tmp_path / "other.yaml")) == 1
    lines = capsys.readouterr().out.splitlines()

    assert lines[1] == "decisions: 10; equal in endpoint: 0; different: 10"
    assert lines[3] == (
        f"note: the configuration differs: test ({told(TIERED).hash}) was recorded, {tmp_path}/other.yaml "
        f"({told(OTHER).hash}) was given in its place; answers are those to the recorded picks"
    )
    assert lines[4] == (
        "different: request req-1 at 1.000 s: endpoint 10.0.0.3:8000 on record, 10.0.0.1:8000 here"
    )


def test_a_recording_that_was_cut_is_replayed_so_far(run, capsys):
    run.write_bytes(run.read_bytes()[:-20])

    assert replay(run) == 1
    assert "INCOMPLETE: it was cut off, after " in capsys.readouterr().out


def test_what_does_not_fit_together_is_said(tmp_path, capsys):
    path = tmp_path / "odd.rec"
    path.write_bytes(recording([[Tick(1.0), Ended(7, 2.0, EndReason.COMPLETE, None, 0)]]))

    assert replay(path) == 1
    assert (
        "INCOMPLETE: what is on record does not fit together (Ended: KeyError 7)" in capsys.readouterr().out
    )


def test_another_version_and_what_it_makes_of_the_configuration_are_noted(tmp_path, capsys):
    was = msgspec.structs.replace(told(TIERED), hash="0123456789abcdef")
    first = msgspec.structs.replace(header(version="0.0.9"), config=was)
    path = tmp_path / "old.rec"
    path.write_bytes(recording(first=first))

    assert replay(path) == 0
    notes = capsys.readouterr().out.splitlines()[3:]
    assert notes[0] == "note: recorded by epp 0.0.9; this is 0.1.0"
    assert notes[1] == (
        f"note: the configuration differs: test (0123456789abcdef) was recorded, test ({told(TIERED).hash}) "
        "is what this version makes of it; answers are those to the recorded picks"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"{}\n", "cannot be replayed: it does not begin as a recording of epp does"),
        (b"epp recording 2\n", "cannot be replayed: its format is 2; this version of epp reads format 1"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path, capsys, content, said):
    path = tmp_path / "run.rec"
    if content is not None:
        path.write_bytes(content)

    assert replay(path) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("change", ["blockSize: 16", "blockSize: 64, maxPrefixBlocksToMatch: 100000"])
def test_a_configuration_that_reads_what_was_not_hashed_is_refused(tmp_path, capsys, change):
    capped = TIERED.replace("blockSize: 64", "blockSize: 64, maxPrefixBlocksToMatch: 10")
    pool = RecordedPool(config=capped)
    pool.serve(PROMPT)
    (tmp_path / "run.rec").write_bytes(pool.written())
    (tmp_path / "other.yaml").write_text(TIERED.replace("blockSize: 64", change))

    assert replay(tmp_path / "run.rec", "--config", str(tmp_path / "other.yaml")) == 2
    assert "bytes of a prompt that are not on record" in capsys.readouterr().err


def test_what_a_replay_has_no_use_for_is_refused(run, capsys):
    assert replay(run, "--fleet", "f.yaml", "--csv", "out.csv") == 2
    assert (
        "goes with --config, --decisions and --format alone, not with --fleet, --csv"
        in capsys.readouterr().err
    )
