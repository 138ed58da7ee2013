"""`epp check`."""

import io
import json
import sys

import pytest

from epp.cli import main
from tests.config.config_texts import HEAD, ROOT

VALID = HEAD + "plugins:\n- type: queue-scorer\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into the current directory of the test; the environment holds no EPP_ variable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", {})

    def put(name, text):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return put


def test_a_valid_file_prints_what_it_means(write, capsys):
    assert main(["check", write("plugins.yaml", VALID)]) == 0

    out = capsys.readouterr().out
    assert out.startswith("plugins.yaml: valid (plain file)\nhash ")
    assert "scorer queue-scorer" in out


def test_an_invalid_file_prints_all_problems_on_standard_error(write, capsys):
    file = write("plugins.yaml", VALID + "  weight: 1\nstray: 1\n")

    assert main(["check", file]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "plugins.yaml: plugins[0].weight (line 5): unknown key 'weight'; known keys here: type, name, parameters",
        "plugins.yaml: stray (line 6): unknown key 'stray'; known keys here: apiVersion, kind, featureGates, plugins, schedulingProfiles, dataLayer, data, flowControl, requestHandler, parser, saturationDetector",
        "epp: invalid, 2 problems",
    ]


def test_one_problem_is_counted_in_the_singular(write, capsys):
    assert main(["check", write("plugins.yaml", "")]) == 2
    assert capsys.readouterr().err.endswith("epp: invalid, 1 problem\n")


def test_helm_values_are_found_and_told(write, capsys):
    values = "router:\n  epp:\n    pluginsCustomConfig:\n      a: |\n" + "".join(
        f"        {line}\n" for line in VALID.splitlines()
    )

    assert main(["check", write("values.yaml", values)]) == 0
    assert capsys.readouterr().out.startswith(
        "values.yaml: valid (Helm values at router.epp.pluginsCustomConfig.a)\n"
    )


def test_standard_input_is_read(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(VALID))

    assert main(["check", "-"]) == 0
    assert capsys.readouterr().out.startswith("-: valid (plain file)\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "gone.yaml: document: cannot be read: No such file or directory"),
        (b"\xff\xfe", "gone.yaml: document: cannot be read: it is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(write, capsys, content, message):
    if content is not None:
        write("gone.yaml", content)

    assert main(["check", "gone.yaml"]) == 2
    assert capsys.readouterr().err.splitlines()[0] == message


def test_settings_are_checked_with_the_environment(write, capsys, monkeypatch):
    monkeypatch.setenv("EPP_LOG_LEVEL", "debug")
    monkeypatch.setenv("EPP_PORT", "tcp://10.0.0.1:80")
    write("settings.yaml", "port: 9000\nadminKey: hunter2\n")

    assert main(["check", write("plugins.yaml", VALID), "--settings", "settings.yaml"]) == 0

    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["port", "9000", "file", "settings.yaml,", "line", "1"] in lines
    assert ["log.level", "debug", "environment", "EPP_LOG_LEVEL"] in lines
    assert "note: ignored, as they describe a Kubernetes Service: EPP_PORT" in out
    assert "hunter2" not in out


def test_problems_of_both_files_are_told_at_once(write, capsys):
    write("settings.yaml", "prot: 1\n")

    assert main(["check", write("plugins.yaml", ""), "--settings", "settings.yaml"]) == 2

    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith("plugins.yaml: document: is empty")
    assert errors[1].startswith(
        "settings: settings.yaml: prot (line 1): unknown key 'prot'; did you mean 'port'?"
    )
    assert errors[2] == "epp: invalid, 2 problems"


def test_json_holds_the_whole_result(write, capsys):
    write("settings.yaml", "port: 9000\n")

    assert main(["check", write("p.yaml", VALID), "--settings", "settings.yaml", "--format", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], found["problems"], found["form"], found["path"]) == (True, [], "plain file", "")
    assert found["config"]["profiles"][0]["picker"] == "max-score-picker"
    assert found["settings"]["port"] == {"value": "9000", "from": "file settings.yaml, line 1"}
    assert found["notices"] == []


def test_json_holds_the_problems_and_exits_with_2(write, capsys):
    assert main(["check", write("p.yaml", VALID + "stray: 1\n"), "--format", "json"]) == 2

    captured = capsys.readouterr()
    found = json.loads(captured.out)
    (problem,) = found["problems"]
    assert found["valid"] is False
    assert "config" not in found
    assert (problem["source"], problem["path"], problem["line"]) == ("p.yaml", "stray", 5)
    assert (problem["message"], problem["remedy"][:16]) == ("unknown key 'stray'", "known keys here:")
    assert captured.err == ""


@pytest.mark.parametrize(
    "name", ["default.yaml", "tiered-prefix-cpu.yaml", "no-prefix.yaml", "ttft-cost.yaml"]
)
def test_the_shipped_configurations_are_valid(capsys, name):
    assert main(["check", str(ROOT / "config" / name)]) == 0
    assert "warning" not in capsys.readouterr().out
