"""`epp explain`: a decision from a saved state, without a router."""

import json

import pytest

from epp.cli import main
from epp.director.snapshot import state_slices
from epp.endpoints.types import ModelInfo
from tests.director.core import Pool

BODY = {"model": "m", "prompt": "word " * 400}


@pytest.fixture
def saved(tmp_path):
    """Writes the state of a pool whose first endpoint holds BODY's prompt, and the request."""

    def write(pool=None, body=BODY):
        if pool is None:
            pool = Pool()
            for address in pool.core.table.pool.by_address:
                pool.core.table.set_models(address, (ModelInfo("m"),), 0.0)
            pool.served = pool.serve(BODY["prompt"]).target.address
        state, request = tmp_path / "state.json", tmp_path / "request.json"
        state.write_bytes(b"".join(state_slices(pool.core.state, 5.0, with_index=True)))
        request.write_text(json.dumps(body))
        (tmp_path / "config.yaml").write_text(pool.config)
        return pool

    return write


@pytest.fixture
def explain(tmp_path):
    """Runs the command on what was written; returns its exit status."""

    def run(*flags, config=True):
        command = ["explain", "--endpoints-state", str(tmp_path / "state.json"), "--path", "/v1/completions"]
        command += ["--config", str(tmp_path / "config.yaml")] if config else []
        return main([*command, *flags, str(tmp_path / "request.json")])

    return run


def test_the_decision_is_printed_with_every_candidate_and_what_it_holds(saved, explain, capsys):
    pool = saved()

    assert explain() == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].startswith(f"picked {pool.served}  (model m, profile default, about 500 prompt tokens)")
    assert (
        lines[2]
        == f"{pool.served}  total 4.000 of 6  predicted hit tokens: gpu 496, cpu 0  [metrics stale or missing]"
    )
    assert [line.split()[0] for line in lines[3:7]] == [
        "queue-scorer",
        "kv-cache-utilization-scorer",
        "gpu-scorer",
        "cpu-scorer",
    ]
    assert len([line for line in lines if " of 6  predicted" in line]) == 3


def test_json_holds_the_receipt(saved, explain, capsys):
    pool = saved()

    assert explain("--format", "json") == 0
    found = json.loads(capsys.readouterr().out)

    assert found["endpoints"] == [pool.served]
    assert found["receipt"]["candidates"][0]["predicted_hit_tokens"] == {"gpu": 496, "cpu": 0}


def test_another_configuration_decides_from_the_same_state(saved, explain, capsys):
    pool = saved()

    assert explain("--format", "json", config=False) == 0

    receipt = json.loads(capsys.readouterr().out)["receipt"]
    assert min(receipt["candidates"][0]["scores"]) == "active-request-scorer"
    assert len(receipt["candidates"]) == pool.n


def test_those_that_are_left_out_are_told_with_the_reason(saved, explain, capsys):
    pool = Pool()
    pool.core.table.mark_draining("10.0.0.2:8000")
    saved(pool)

    explain()

    assert "10.0.0.2:8000  excluded: draining" in capsys.readouterr().out


def test_a_request_that_would_be_refused_is_1(saved, explain, capsys):
    saved(body={"model": "unknown", "prompt": "x"})

    assert explain() == 1
    assert capsys.readouterr().err == "refused: 404 model_not_found: model 'unknown' does not exist\n"


def test_files_that_cannot_be_used_are_2(saved, explain, tmp_path, capsys):
    saved()
    (tmp_path / "state.json").write_text("[]")

    assert explain() == 2
    assert "--endpoints-state: " in capsys.readouterr().err

    (tmp_path / "request.json").unlink()
    saved_state = tmp_path / "state.json"
    saved_state.unlink()

    assert explain() == 2
    assert "No such file or directory; name a readable file" in capsys.readouterr().err
