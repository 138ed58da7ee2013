"""The access log's lines, in both shapes."""

import json

import msgspec
import pytest

from epp.clock import ManualClock
from epp.director.types import EndReason, FailureKind
from epp.observability.access_log import AccessLog, access_line
from epp.response.types import Usage
from epp.scheduling.contracts import Decision, ProfileResult
from tests.observability.builders import E1, SENTINEL, World


@pytest.fixture
def world() -> World:
    return World()


class Log:
    """An access log that writes into a list, at 22:30:00.125 UTC."""

    def __init__(self, **options) -> None:
        self.lines: list[bytes] = []
        self._log = AccessLog(
            self.lines.extend, ManualClock(now=0.125, epoch=1_700_001_000.0).wall, **options
        )

    def line(self, record) -> str:
        self._log.observe([record])
        text = self.lines[-1].decode()
        assert "\n" not in text
        return text

    def fields(self, record) -> dict:
        return json.loads(self.line(record))


def test_a_line_says_what_happened_and_why(world):
    assert Log().fields(world.record()) == {
        "ts": "2023-11-14T22:30:00.125Z",
        "request_id": "req-1",
        "method": "POST",
        "path": "/v1/chat/completions",
        "reason": "complete",
        "ms": 812.0,
        "status": 200,
        "model": "m",
        "endpoint": E1,
        "attempts": 1,
        "stream": True,
        "request_bytes": 1300,
        "response_bytes": 30,
        "first_byte_ms": 112.0,
        "prepare_us": 30,
        "decision_us": 40,
        "prompt_tokens_estimated": 256,
        "predicted_gpu": 192,
        "predicted_cpu": 48,
        "prompt_tokens": 250,
        "completion_tokens": 71,
        "cached_tokens": 224,
        "candidates": 2,
        "total": 2.5,
        "scores": {"queue": 1.0, "gpu": 0.5},
    }


def test_what_is_not_known_is_left_out(world):
    record = world.record(
        model=None,
        target_model="",
        endpoint=None,
        slot=None,
        attempts=0,
        status=None,
        reason=EndReason.CLIENT_DISCONNECTED,
        first_byte_at=None,
        decision_s=None,
        decision=None,
        prompt_tokens_estimated=None,
        predicted_gpu_tokens=None,
        predicted_cpu_tokens=None,
        usage=None,
        stream=False,
        request_bytes=0,
        response_bytes=0,
        prepare_s=0.0,
    )

    assert set(Log().fields(record)) == {"ts", "request_id", "method", "path", "reason", "ms"}


def test_zero_predicted_tokens_are_said(world):
    fields = Log().fields(world.record(predicted_gpu_tokens=0, usage=Usage(5, 0, 0)))

    assert (fields["predicted_gpu"], fields["completion_tokens"], fields["cached_tokens"]) == (0, 0, 0)


def test_failures_name_error_reason_and_retries(world):
    fields = Log().fields(
        world.record(
            status=502,
            error="upstream_connect_failed",
            dropped="upstream-connect-failed",
            reason=EndReason.REJECTED,
            attempts=3,
            retries=(FailureKind.CONNECT, FailureKind.CLOSED_REUSED),
            ejected=(E1,),
        )
    )

    assert fields["error"] == "upstream_connect_failed"
    assert fields["dropped"] == "upstream-connect-failed"
    assert fields["reason"] == "rejected"
    assert fields["retries"] == ["connect", "closed-reused"]
    assert fields["ejected"] == [E1]


def test_the_target_is_said_where_it_is_another_name(world):
    assert "target_model" not in Log().fields(world.record())
    fields = Log().fields(
        world.record(model="alias", target_model="m", adapter="sql", priority=5, fairness_id="t")
    )
    assert (fields["model"], fields["target_model"], fields["adapter"]) == ("alias", "m", "sql")
    assert (fields["priority"], fields["fairness_id"]) == (5, "t")
    assert "target_model" not in Log().fields(world.record(model="gone", target_model=""))
    assert Log().fields(world.record(model=None, target_model="m"))["target_model"] == "m"


def test_the_prefix_option_adds_arrival_and_chain(world):
    fields = Log(prefix=True).fields(world.record())

    assert fields["arrival"] == 1_700_000_999.313
    assert fields["chain"] == ["0000000000001234", "abcdef0123456789"]


def test_without_the_prefix_option_there_is_neither(world):
    assert not {"arrival", "chain"} & set(Log().fields(world.record()))


@pytest.mark.parametrize("options", [{}, {"prefix": True}, {"human": True}, {"human": True, "prefix": True}])
def test_prompts_headers_and_salts_are_never_logged(world, options):
    assert SENTINEL not in Log(**options).line(world.record())


def test_the_last_endpoints_scores_are_told(world):
    fields = Log().fields(world.record(1, decision=world.decision(slot=0)))

    assert (fields["total"], fields["scores"]) == (2.0, {"queue": 1.0, "gpu": 0.0})


@pytest.mark.parametrize("slot", [None, 7], ids=["not told", "no candidate"])
def test_without_the_endpoint_among_the_candidates_their_number_is_told(world, slot):
    line = access_line(world.record(slot=slot), "t")

    assert (line.candidates, line.total, line.scores) == (2, None, None)


def test_slots_with_gaps_are_found(world):
    world = World(5)
    pool = world.table.pool.endpoints
    full = world.decision(slot=4)
    result = ProfileResult("default", (pool[1], pool[4]), (), full.primary.columns[:1], [1.0, 2.25], iter(()))
    decision = Decision(full.cycle, result, {})

    assert access_line(world.record(decision=decision, slot=4), "t").total == 2.25
    assert access_line(world.record(decision=decision, slot=1), "t").total == 1.0
    assert access_line(world.record(decision=decision, slot=3), "t").total is None


def test_a_decision_without_candidates_has_none(world):
    empty = ProfileResult("default", (), (), (), [], iter(()))
    decision = msgspec.structs.replace(world.decision(), primary=empty)

    line = access_line(world.record(decision=decision), "t")

    assert (line.candidates, line.total) == (0, None)


@pytest.mark.parametrize("human", [False, True])
def test_names_that_clients_choose_cannot_forge_a_line(world, human):
    line = Log(human=human).line(
        world.record(model="m\n2023 forged\x1b[31m", target_model="\ud800", path="/v1/\r\nx")
    )

    assert "\n" not in line
    assert "\x1b" not in line
    assert "forged" in line


def test_long_names_are_cut(world):
    line = Log().line(world.record(model="x" * 100_000, path="/" + "y" * 100_000))

    assert len(line) < 2000


def test_a_human_line(world):
    assert Log(human=True).line(world.record()) == (
        "22:30:00.125 200 POST /v1/chat/completions 812ms model=m first_byte=112ms -> 10.0.0.1:8000"
        " prompt=250 gpu=192 cpu=48 cached=224 out=71 total=2.5 id=req-1"
    )


def test_a_human_line_of_a_failure(world):
    record = world.record(
        status=None,
        reason=EndReason.CLIENT_DISCONNECTED,
        model=None,
        endpoint=None,
        first_byte_at=None,
        usage=None,
        decision=None,
        retries=(FailureKind.CONNECT, FailureKind.BROKEN),
        error="x",
    )

    assert Log(human=True).line(record) == (
        "22:30:00.125 - POST /v1/chat/completions 812ms model=m"
        " prompt=256 gpu=192 cpu=48 retries=connect,broken error=x reason=client_disconnected id=req-1"
    )


def test_a_human_line_says_how_many_hashes_there_are(world):
    assert Log(human=True, prefix=True).line(world.record()).endswith("id=req-1 chain=2")


def test_time_goes_on(world):
    clock = ManualClock(now=0.999, epoch=1_700_001_000.0)
    lines: list[bytes] = []
    log = AccessLog(lines.extend, clock.wall)
    for _ in range(3):
        log.observe([world.record()])
        clock.advance(0.5)

    assert [json.loads(line)["ts"][-11:] for line in lines] == [":30:00.999Z", ":30:01.499Z", ":30:01.999Z"]


def test_a_record_that_cannot_be_rendered_costs_no_other_its_line(world):
    lines: list[bytes] = []
    log = AccessLog(lines.extend, ManualClock().wall)
    records = iter([world.record(), world.record(client="\ud800"), world.record()])

    with pytest.raises(UnicodeEncodeError):
        log.observe(records)
    log.observe(records)

    assert [json.loads(line)["request_id"] for line in lines] == ["req-1", "req-1"]
