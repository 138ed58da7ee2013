"""Fleet and workload files: what they mean, and how a fault is told."""

import gzip
import json
from pathlib import Path

import pytest

from epp.director.pick import pick_now
from epp.director.types import RequestHead
from epp.engine import StepLoad
from epp.errors import ConfigError
from epp.simulate.conversations import Conversations
from epp.simulate.events import EventKind
from epp.simulate.fleet import Offload
from epp.simulate.inputs import (
    model_shape,
    override,
    read_fleet,
    read_grid,
    read_workload,
    read_yaml,
    workload_of,
)
from epp.simulate.traces import TraceOptions, read_trace
from tests.director.core import usage
from tests.recording.kit import RecordedPool

SHARED = {
    "kind": "shared-prefix",
    "numGroups": 2,
    "numPromptsPerGroup": 2,
    "systemPromptLen": 100,
    "questionLen": 10,
    "outputLen": 5,
}


def test_a_fleet_file_has_the_published_servers_as_defaults():
    fleet, events = read_fleet({})

    assert (fleet.engines, fleet.gpu_tokens, fleet.offload, events) == (8, 148_336, Offload.NONE, ())
    assert fleet.kv_bytes_per_token == 131_072


def test_a_fleet_file_overrides_times_and_names_failures():
    fleet, events = read_fleet(
        {
            "offload": "native",
            "cpuBlocks": 100,
            "linkGbPerS": 14,
            "stepOverheadMs": 3,
            "latencyFactor": 2,
            "events": [{"at": 5, "kind": "down", "endpoint": 7}],
        }
    )

    assert fleet.latency.link_bytes_per_s == 14e9
    assert fleet.latency.overhead_s == 0.003
    assert fleet.latency.read_s == pytest.approx(0.0262)
    assert (events[0].at_s, events[0].kind, events[0].endpoint) == (5, EventKind.DOWN, 7)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"engine": 8}, "unknown field `engine`"),
        ({"engines": "many"}, r"Expected `int`, got `str` - at `\$.engines`"),
        ({"gpu": "b300"}, "'b300' is unknown"),
        ({"model": "nobody/knows"}, "'nobody/knows' is no file and no known model"),
        ({"engines": 0}, "engines must be at least 1, got 0"),
        ({"tp": 0}, "tp must be at least 1, got 0"),
        ({"latencyFactor": 0}, "the factor must be positive, got 0"),
        ({"offload": "native"}, "offload native needs cpuBlocks x 16 of at least 64, got 0"),
        ({"events": [{"at": 1, "kind": "up", "endpoint": 8}]}, "endpoint must be below 8"),
        ({"events": [{"at": 1, "kind": "fire"}]}, "Invalid enum value 'fire'"),
    ],
)
def test_a_fault_of_a_fleet_is_told_with_its_key(raw, message):
    with pytest.raises(ConfigError, match=message):
        read_fleet(raw)


GRID = {
    "prefill": {"tokens": [100, 1000], "ms": [[20], [110]]},
    "decode": {"sequences": [1, 11], "context": [1000, 3000], "ms": [[10, 12], [20, 40]]},
}


def test_measured_step_times_replace_those_of_the_profile(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(json.dumps({**GRID, "linkGbPerS": 10, "linkLatencyMs": 2}))
    fleet, _ = read_fleet({"latencyGrid": str(path), "latencyFactor": 2})

    assert fleet.latency.step_s(StepLoad(550, 550 * 275.0, 0, 0)) == pytest.approx(0.130)
    assert fleet.latency.load_s(10_000_000) == pytest.approx(0.003)
    linked, _ = read_fleet({"latencyGrid": str(path), "linkGbPerS": 5})
    assert linked.latency.load_s(10_000_000) == pytest.approx(0.004)


def test_the_shipped_grid_is_close_to_the_shipped_profile():
    """It has the profile's own figures at its points."""
    root = Path(__file__).parents[2]
    grid = read_grid(read_yaml(root / "examples" / "latency-grid.yaml", "grid"))
    fleet, _ = read_fleet({})

    for load in (StepLoad(4_096, 4_096 * 2_048.0, 0, 0), StepLoad(16, 0.0, 16, 16 * 6_000)):
        assert grid.step_s(load) == pytest.approx(fleet.latency.step_s(load), rel=0.06)
    mixed = StepLoad(1_016, 1_000 * 5_500.0, 16, 16 * 6_000)
    assert grid.step_s(mixed) == pytest.approx(fleet.latency.step_s(mixed), rel=0.06)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prefill": {"tokens": [100], "ms": [[20], [30]]}}, "latencyGrid.prefill: 1 rows need as many rows"),
        (
            {"decode": {"sequences": [2, 1], "context": [1], "ms": [[1], [1]]}},
            "latencyGrid.decode: rows must be",
        ),
        ({"decode": {"sequences": [1], "ms": [[1]]}}, "missing required field `context`"),
        ({"prefil": {}}, "unknown field `prefil`"),
        ({"linkGbPerS": 0}, "the link's bandwidth must be positive"),
    ],
)
def test_a_fault_of_a_grid_is_told_with_its_key(tmp_path, change, message):
    path = tmp_path / "grid.yaml"
    path.write_text(json.dumps({**GRID, **change}))

    with pytest.raises(ConfigError, match=message):
        read_fleet({"latencyGrid": str(path)})


def test_a_grid_has_its_own_overhead(tmp_path):
    with pytest.raises(ConfigError, match="stepOverheadMs is part of what latencyGrid measures"):
        read_fleet({"latencyGrid": "grid.yaml", "stepOverheadMs": 2})
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        read_fleet({"latencyGrid": "nowhere.yaml"})


def test_a_config_json_gives_the_model(tmp_path):
    config = {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "intermediate_size": 14336, "vocab_size": 128256,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "broken.json").write_text("{")

    assert model_shape(str(tmp_path / "config.json")).kv_bytes_per_token() == 131_072
    with pytest.raises(ConfigError, match=r"broken.json"):
        model_shape(str(tmp_path / "broken.json"))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"kind": "something"}, "Invalid value 'something'"),
        ({**SHARED, "numGroup": 1}, "unknown field `numGroup`"),
        (SHARED, "shared-prefix needs stages, or concurrency and numRequests"),
        (
            {**SHARED, "numGroups": 0, "concurrency": 1, "numRequests": 1},
            "numGroups must be at least 1, got 0",
        ),
        ({"kind": "trace", "file": "nowhere.jsonl"}, "nowhere.jsonl: No such file"),
        ({"kind": "trace", "file": "nowhere.jsonl", "speed": 0}, "speed must be positive, got 0"),
        ({"kind": "trace", "file": "nowhere.jsonl", "limit": -1}, "limit must not be negative, got -1"),
        ({"kind": "conversations", "sessions": 0, "rate": 1}, "sessions must be at least 1, got 0"),
        ({"kind": "conversations", "sessions": 1, "rate": 0}, "rate must be positive, got 0"),
        (
            {"kind": "conversations", "sessions": 1, "rate": 1, "outputLen": 0},
            "outputLen must be at least 1",
        ),
    ],
)
def test_a_fault_of_a_workload_is_told(raw, message):
    with pytest.raises(ConfigError, match=message):
        workload_of(read_workload(raw), seed=1)


def test_stages_make_a_ladder():
    workload = workload_of(
        read_workload({**SHARED, "stages": [{"rate": 5, "duration": 10, "interval": 1}]}), 1
    )

    assert 30 < workload.total < 75


def test_a_file_that_is_no_mapping_is_refused(tmp_path):
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "broken.yaml").write_text("a: [\n")
    for name, message in (
        ("list", "must hold a mapping"),
        ("broken", "is no YAML"),
        ("gone", "No such file"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_yaml(tmp_path / f"{name}.yaml", "--fleet")


def test_an_override_descends_at_dots():
    raw = {"fleet": {"tp": 2}, "config": "a"}

    assert override(raw, "fleet.tp", 4) == {"fleet": {"tp": 4}, "config": "a"}
    assert override(raw, "config", "b") == {"fleet": {"tp": 2}, "config": "b"}
    assert raw == {"fleet": {"tp": 2}, "config": "a"}


# -------------------------------------------------------------------- conversations


def talk(**fields):
    defaults = {
        "sessions": 3, "rate": 1.0, "turns": 3, "system_prompt_len": 100, "user_len": 50, "output_len": 20,
        "think_time": 5.0, "seed": 1,
    }  # fmt: skip
    return Conversations(**(defaults | fields))


def test_a_turn_begins_with_all_that_was_said_before():
    workload = talk()
    first = [request for _, request in workload.initial()]
    ((when, second),) = workload.next_after(first[0], 10.0)
    ((_, third),) = workload.next_after(second, 20.0)

    assert when > 10.0
    assert second.segments[:-1] == (*first[0].segments, first[0].answer)
    assert third.segments[:-1] == (*second.segments, second.answer)
    assert list(workload.next_after(third, 30.0)) == []
    assert (first[0].number, second.number, third.number) == (0, 1, 2)
    assert workload.total == 9


def test_turns_do_not_depend_on_the_order_in_which_they_end():
    one, other = talk(), talk()
    firsts = [request for _, request in one.initial()]
    again = [request for _, request in other.initial()]
    forward = [next(iter(one.next_after(r, 0.0)))[1].segments for r in firsts]
    backward = [next(iter(other.next_after(r, 0.0)))[1].segments for r in reversed(again)]

    assert forward == backward[::-1]


def test_without_think_time_and_system_prompt_a_turn_follows_at_once():
    workload = talk(think_time=0.0, system_prompt_len=0)
    first = next(iter(workload.initial()))[1]

    assert len(first.segments) == 1
    assert next(iter(workload.next_after(first, 7.0)))[0] == 7.0


# -------------------------------------------------------------------- traces

MOONCAKE = (
    '{"timestamp": 2000, "input_length": 1100, "output_length": 9, "hash_ids": [0, 1, 2]}\n'
    '{"timestamp": 1000, "input_length": 600, "output_length": 0, "hash_ids": [0, 5, 6]}\n\n'
)


def played(tmp_path, text, name="trace.jsonl", **options):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return list(read_trace(path, TraceOptions(**options)).initial())


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_mooncake_blocks_of_512_tokens_are_prefixes(tmp_path, name):
    (start, one), (later, other) = played(tmp_path, MOONCAKE, name)

    assert (start, later) == (0.0, 1.0)
    assert [segment.end for segment in one.segments] == [512, 600]
    assert [segment.end for segment in other.segments] == [512, 1024, 1100]
    assert one.segments[0] == other.segments[0]
    assert (one.output_tokens, other.output_tokens) == (1, 9)


def test_speed_limit_and_length(tmp_path):
    assert [when for when, _ in played(tmp_path, MOONCAKE, speed=4.0)] == [0.0, 0.25]
    assert len(played(tmp_path, MOONCAKE, limit=1)) == 1
    assert [r.prompt_tokens for _, r in played(tmp_path, MOONCAKE, max_prompt_tokens=700)] == [600]
    assert len(played(tmp_path, MOONCAKE, max_prompt_tokens=0)) == 2
    with pytest.raises(ValueError, match="has no request within the limits"):
        played(tmp_path, MOONCAKE, max_prompt_tokens=10)


@pytest.mark.parametrize(
    ("fields", "ends", "seconds"),
    [
        ({"chat_id": 1, "timestamp": 3.5}, [16, 32, 40], 3.5),
        ({"session_id": "s", "timestamp": 3500}, [40], 3.5),
        ({"block_size": 8, "timestamp": 3500}, [8, 16, 24, 40], 3.5),
    ],
)
def test_other_formats_are_told_by_their_fields(tmp_path, fields, ends, seconds):
    base = {"timestamp": 0, "input_length": 40, "output_length": 4, "hash_ids": [1, 2, "c"]}
    lines = [json.dumps({**base, **fields, "timestamp": 0})]
    lines.append(json.dumps({**base, **fields}))
    (_, first), (when, _) = played(tmp_path, "\n".join(lines))

    assert [segment.end for segment in first.segments] == ends
    assert when == seconds


def test_azure_traces_have_no_prefixes(tmp_path):
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:05.5000000,0,0\n"
    (_, one), (when, other) = played(tmp_path, text, "azure.csv")

    assert when == pytest.approx(1.52004)
    assert (one.prompt_tokens, one.output_tokens) == (4808, 10)
    assert (other.prompt_tokens, other.output_tokens) == (1, 1)
    assert one.segments[0].identity != other.segments[0].identity


def test_the_access_log_is_a_trace(tmp_path):
    line = {"ts": "2026-01-01T00:00:10.000Z", "ms": 4000.0, "prompt_tokens": 1000, "completion_tokens": 50}
    lines = [
        json.dumps(line | {"chain": ["00aa"]}),
        json.dumps({"ts": "2026-01-01T00:00:11.000Z", "ms": 1.0, "status": 429}),
        json.dumps(line | {"ts": "2026-01-01T00:00:12.000Z", "chain": ["00aa", "00bb"]}),
    ]
    (_, one), (when, other) = played(tmp_path, "\n".join(lines), "access.jsonl")

    assert when == pytest.approx(2.0)
    assert one.segments[0] == other.segments[0]
    assert [segment.end for segment in other.segments] == [512, 1000]


def test_a_prefix_that_was_only_estimated_ends_for_all_where_it_did_first(tmp_path):
    line = {
        "ts": "2026-01-01T00:00:10.000Z",
        "ms": 0.0,
        "completion_tokens": 50,
        "prompt_tokens_estimated": 1024,
    }
    lines = [
        json.dumps(line | {"prompt_tokens": 2000, "chain": ["00aa", "00bb"]}),
        json.dumps(line | {"prompt_tokens": 1500, "chain": ["00aa", "00cc"]}),
        json.dumps(line | {"prompt_tokens": 900, "chain": ["00bb", "00aa", "00dd"]}),
    ]
    ends = [
        [segment.end for segment in request.segments]
        for _, request in played(tmp_path, "\n".join(lines), "access.jsonl")
    ]

    assert ends == [[1000, 2000], [1000, 1500], [900]]


def test_an_access_log_without_prefixes_says_so(tmp_path):
    line = {"ts": "2026-01-01T00:00:10.000Z", "ms": 4.0, "prompt_tokens": 9, "completion_tokens": 5}
    path = tmp_path / "access.jsonl"
    path.write_text(json.dumps(line))

    assert read_trace(path).note.startswith("the access log tells no prefixes")
    path.write_text(json.dumps(line | {"chain": ["00aa"]}))
    assert read_trace(path).note == ""


def test_a_recording_is_a_trace(tmp_path):
    pool = RecordedPool()
    system = "you are a helpful assistant that answers in verse " * 40
    for n, told in enumerate([usage(1000, 9), usage(1000, 5), usage(1000, 0), None]):
        pool.serve(f"{system}{n}{system}", 10.0 + n, usage=told)
    pick_now(
        pool.director, RequestHead("q", "POST", "/v1/completions"), b'{"prompt": "x"}', 20.0, commit=False
    )
    pool.answer(pool.open(b"", path="/v1/models", method="GET"), usage=usage(1, 1))
    (tmp_path / "run.rec").write_bytes(pool.written())

    workload = workload_of(read_workload({"kind": "trace", "file": str(tmp_path / "run.rec")}), 1)
    (start, one), (later, other) = workload.initial()

    assert (start, later, one.output_tokens, other.output_tokens) == (0.0, 1.0, 9, 5)
    # 4,001 bytes are 1,000 tokens, 512 of them 128; the prompts part after 2,000 bytes.
    assert [segment.end for segment in one.segments] == [128, 256, 384, 512, 640, 768, 896, 1000]
    assert [a == b for a, b in zip(one.segments, other.segments, strict=True)] == [True] * 3 + [False] * 5
    assert workload.note == ""


def test_a_recording_that_was_cut_is_played_so_far_and_said_to_be(tmp_path):
    pool = RecordedPool()
    pool.serve("x" * 2_000, 1.0, usage=usage(500, 5))
    pool.tape.passed(100.0)
    pool.serve("x" * 2_000, 2.0, usage=usage(500, 5))
    (tmp_path / "run.rec").write_bytes(pool.written()[:-1])

    workload = workload_of(read_workload({"kind": "trace", "file": str(tmp_path / "run.rec")}), 1)

    assert workload.total == 1
    assert workload.note.startswith("run.rec is not whole: it was cut off, after ")


def test_a_recording_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "run.rec").write_bytes(b"epp recording 2\n")

    with pytest.raises(ConfigError) as raised:
        workload_of(read_workload({"kind": "trace", "file": str(tmp_path / "run.rec")}), 1)
    assert "run.rec cannot be read: its format is 2" in str(raised.value.problems[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"timestamp": 1}\n', "has no request whose lengths are known"),
        ('{"hash_ids": [], "timestamp": 1, "input_length": 1}\n', "line 1 is no request of a known trace"),
        ("{not json\n", "line 1 is no request"),
        ("a,b\n1,2\n", "the trace is of no known format"),
        ("12:00:01 200 POST /v1/completions\n", "the trace is of no known format"),
        ("TIMESTAMP,ContextTokens\n2023-11-16 18:17:03,5\n", "line 2 is no request of an Azure trace"),
    ],
)
def test_a_line_that_is_no_request_is_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        played(tmp_path, text)
