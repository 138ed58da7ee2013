"""The commands: results on stdout, files where asked for, faults with exit status 2."""

import csv
import json

import pytest

from epp.cli import main

FLEET = "engines: 2\ngpuBlocks: 800\ncpuBlocks: 4000\noffload: native\n"
WORKLOAD = """
kind: shared-prefix
numGroups: 3
numPromptsPerGroup: 2
systemPromptLen: 2000
questionLen: 100
outputLen: 40
concurrency: 4
numRequests: 12
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    return tmp_path


def arguments(files, *more):
    return [
        "--fleet", str(files / "fleet.yaml"), "--workload", str(files / "workload.yaml"), "--jobs", "1", *more,
    ]  # fmt: skip


def simulate(files, *more):
    return main(["simulate", *arguments(files, *more)])


def test_a_run_prints_its_figures(files, capsys):
    assert simulate(files, "--config", "ttft-cost") == 0
    shown = capsys.readouterr()

    assert shown.out.startswith("ttft-cost\nseconds ")
    assert "12 ended, 0 rejected, 0 failed" in shown.out
    assert shown.err == ""


def test_the_same_seed_gives_the_same_bytes(files, capsys):
    texts = []
    for _ in range(2):
        assert simulate(files, "--format", "json", "--seeds", "2") == 0
        texts.append(capsys.readouterr().out)

    assert texts[0] == texts[1]
    assert json.loads(texts[0])["runs"]["default"]["requests"] == 24


def test_two_configurations_are_compared_on_the_same_requests(files, capsys):
    assert simulate(files, "--compare", "default", "random", "--seeds", "3") == 0
    text = capsys.readouterr().out
    assert "B against A" in text
    assert "95 % interval" in text

    assert simulate(files, "--compare", "default", "random", "--format", "json") == 0
    assert {d["metric"] for d in json.loads(capsys.readouterr().out)["compare"]} >= {"ttft_mean_s", "goodput"}


def test_a_configuration_compared_with_itself_is_one_run(files, capsys):
    assert simulate(files, "--compare", "default", "default") == 0
    assert "B against A" not in capsys.readouterr().out


def test_a_sweep_runs_every_combination(files, capsys):
    sweep = ["--sweep", "fleet.cpuBlocks=1000,4000", "--sweep", "config=default,lmetric"]
    assert simulate(files, *sweep, "--format", "json") == 0

    assert list(json.loads(capsys.readouterr().out)["runs"]) == [
        "default fleet.cpuBlocks=1000",
        "lmetric fleet.cpuBlocks=1000",
        "default fleet.cpuBlocks=4000",
        "lmetric fleet.cpuBlocks=4000",
    ]


def test_requests_decisions_and_page_go_to_files(files, capsys):
    outputs = [
        "--csv",
        str(files / "a.csv"),
        "--decisions",
        str(files / "a.jsonl"),
        "--html",
        str(files / "a.html"),
    ]
    assert simulate(files, *outputs) == 0
    capsys.readouterr()

    with (files / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(int(row["number"]) for row in rows) == list(range(12))
    decisions = [json.loads(line) for line in (files / "a.jsonl").read_text().splitlines()]
    assert len(decisions) == 12
    assert decisions[0]["picked"] in ("engine-0:8000", "engine-1:8000")
    assert {candidate["endpoint"] for candidate in decisions[0]["candidates"]} == {
        "engine-0:8000",
        "engine-1:8000",
    }
    assert (files / "a.html").read_text().count("<svg") == 4


def test_a_configuration_may_be_a_file(files, capsys):
    (files / "mine.yaml").write_text(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n"
        "schedulingProfiles:\n- name: default\n  plugins:\n  - {pluginRef: queue-scorer, weight: 1}\n"
    )
    assert simulate(files, "--config", str(files / "mine.yaml")) == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--config", "nobody"], "nobody cannot be read"),
        (["--sweep", "speed=1"], "'speed=1' is not fleet.KEY=V,V"),
        (["--sweep", "fleet.engines=0"], "engines must be at least 1, got 0"),
        (["--csv", "/nowhere/a.csv"], "/nowhere/a.csv: No such file"),
    ],
)
def test_a_fault_is_told_on_stderr(files, capsys, more, message):
    assert simulate(files, *more) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


def test_fleet_and_workload_belong_together(capsys):
    assert main(["simulate", "--fleet", "fleet.yaml"]) == 2
    assert "both --fleet and --workload" in capsys.readouterr().err


def test_counts_must_be_positive(files, capsys):
    with pytest.raises(SystemExit) as ended:
        simulate(files, "--seeds", "0")
    assert ended.value.code == 2
    assert "must be at least 1, got 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seeds", "x"), "must be a whole number, got 'x'"),
        (("--slo-ttft", "-1"), "must be a number above 0, not '-1'"),
        (("--slo-itl", "soon"), "must be a number above 0, not 'soon'"),
        (("--slo-itl", "inf"), "must be a number above 0, not 'inf'"),
        (("--slo-itl", "nan"), "must be a number above 0, not 'nan'"),
    ],
)
def test_a_number_that_is_none_is_told(files, capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        simulate(files, *words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_prompt_that_no_server_can_hold_is_refused_by_it(files, capsys):
    """100 blocks are 1,600 tokens; prompts have 2,100."""
    (files / "fleet.yaml").write_text("engines: 1\ngpuBlocks: 100\n")
    assert simulate(files) == 0

    assert "0 ended, 0 rejected, 12 failed" in capsys.readouterr().out


def test_events_after_the_last_request_do_not_make_the_fleet_look_idle(files, capsys):
    shares = []
    for events in ("", "events:\n- {at: 10000, kind: up, endpoint: 0}\n"):
        (files / "fleet.yaml").write_text(FLEET + events)
        assert simulate(files, "--format", "json") == 0
        shares.append(json.loads(capsys.readouterr().out)["runs"]["default"]["busy_share"])

    assert shares[0] == shares[1] > 0.2


def test_a_fleet_in_trouble_loses_only_what_was_streaming(files, capsys):
    events = "events:\n- {at: 1, kind: down, endpoint: 0}\n- {at: 4, kind: up, endpoint: 0}\n"
    events += "- {at: 0.5, kind: cpu-tier-off, endpoint: 1}\n- {at: 0.2, kind: scrapes-fail, endpoint: 1}\n"
    events += "- {at: 0.9, kind: scrapes-recover, endpoint: 1}\n- {at: 5, kind: up, endpoint: 1}\n"
    (files / "fleet.yaml").write_text(FLEET + "stepNoise: 0.1\n" + events)
    (files / "workload.yaml").write_text(WORKLOAD.replace("numRequests: 12", "numRequests: 60"))
    assert simulate(files, "--format", "json") == 0
    shown = json.loads(capsys.readouterr().out)["runs"]["default"]

    assert shown["requests"] + shown["failed"] + shown["rejected"] == 60
    assert 0 < shown["failed"] <= 4


@pytest.mark.parametrize("form", ["markdown", "json", "html"])
def test_advice_is_one_page(files, capsys, form):
    assert main(["advise", *arguments(files, "--format", form)]) == 0
    text = capsys.readouterr().out

    assert "ttft-cost" in text
    assert "router: --config config/ttft-cost.yaml" in text or "router: no --config" in text
    if form == "json":
        assert {option["offload"] for option in json.loads(text)["options"]} == {
            "none", "native", "lmcache-local", "lmcache-shared",
        }  # fmt: skip


def test_advice_without_host_memory_is_refused(files, capsys):
    (files / "fleet.yaml").write_text("engines: 2\n")
    assert main(["advise", *arguments(files)]) == 2
    assert "say how many blocks of host memory" in capsys.readouterr().err


def test_advice_needs_a_seed(files, capsys):
    assert main(["advise", *arguments(files, "--seeds", "0")]) == 2
    assert "must be at least 1" in capsys.readouterr().err


def test_capacity_as_text_and_json(capsys):
    words = ["capacity", "--model", "qwen3-32b", "--tp", "2", "--gpu-blocks", "9271", "--cpu-blocks", "41000"]
    assert main([*words, "--cpu-gb", "100"]) == 0
    text = capsys.readouterr().out
    assert "41,000 blocks, 656,000 tokens, 172.0 GB" in text
    assert "warning: 41,000 CPU blocks are 172 GB" in text

    assert main([*words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes_per_token"] == 262_144


def test_capacity_that_cannot_be_is_told(capsys):
    assert main(["capacity", "--model", "qwen3-32b", "--tp", "1", "--gpu-memory-utilization", "0.5"]) == 2
    assert "do not fit" in capsys.readouterr().err


def test_two_processes_give_what_one_gives(files, capsys):
    texts = []
    for jobs in ("1", "2"):
        words = arguments(files, "--seeds", "2", "--format", "json")
        words[words.index("--jobs") + 1] = jobs
        assert main(["simulate", *words]) == 0
        texts.append(capsys.readouterr().out)

    assert texts[0] == texts[1]
