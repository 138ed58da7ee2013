"""The ring of decisions: the newest first, without content, rendered when asked."""

import gc
import json

import msgspec

from epp.clock import ManualClock
from epp.director.exclusions import RuledOut
from epp.director.types import EndReason
from epp.observability.decisions import DecisionLog
from epp.request.types import Prompt
from epp.scheduling.receipt import PredictedHit
from tests.observability.builders import E1, E2, SENTINEL, World


def log_with(world: World, keep: int = 3, **options) -> DecisionLog:
    return DecisionLog(keep, ManualClock(now=0.0, epoch=1_700_001_000.0).wall, **options)


def rendered(log, limit):
    return list(log.render(limit))


def test_the_newest_come_first_and_the_oldest_go():
    world = World()
    log = log_with(world)
    for n in range(5):
        log.observe([world.record(request_id=f"req-{n}")])

    assert [d["request_id"] for d in rendered(log, 10)] == ["req-4", "req-3", "req-2"]
    assert [d["request_id"] for d in rendered(log, 2)] == ["req-4", "req-3"]


def test_a_decision_is_told_with_its_receipt():
    world = World()
    log = log_with(world)
    log.observe([world.record()])

    (told,) = rendered(log, 1)

    assert (told["ts"], told["status"], told["endpoint"]) == ("2023-11-14T22:30:00.000Z", 200, E1)
    receipt = told["receipt"]
    assert (receipt["picked"], receipt["prompt_tokens"], receipt["weight_sum"]) == (E1, 256, 3.0)
    assert [c["endpoint"] for c in receipt["candidates"]] == [E1, E2]
    assert receipt["candidates"][0]["predicted_hit_tokens"] == {"gpu": 192, "cpu": 48}
    assert receipt["candidates"][1]["predicted_hit_tokens"] == {"gpu": None, "cpu": None}
    assert json.loads(json.dumps(told)) == told


def test_predictions_of_all_candidates_are_asked_for_where_possible():
    world = World()
    log = log_with(world, hits=lambda decision, endpoint: PredictedHit(endpoint.slot * 10, 1))
    log.observe([world.record()])

    (told,) = rendered(log, 1)

    hits = [c["predicted_hit_tokens"] for c in told["receipt"]["candidates"]]
    assert hits == [{"gpu": 192, "cpu": 48}, {"gpu": 10, "cpu": 1}]


def test_who_was_ruled_out_is_told_with_the_reason():
    world = World()
    log = log_with(world)
    one, two = world.table.pool.endpoints
    log.observe([world.record(ruled_out=RuledOut((one, two), (one, two), {two.slot: "draining"}))])
    log.observe([world.record(ruled_out=RuledOut((one, two), (one,), {}))])

    assert [told["receipt"]["excluded"] for told in rendered(log, 2)] == [
        [{"endpoint": E2, "reason": "serves another model"}],
        [{"endpoint": E2, "reason": "draining"}],
    ]


def test_a_request_without_decision_has_no_receipt():
    world = World()
    log = log_with(world)
    log.observe([world.record(decision=None, endpoint=None, status=404, reason=EndReason.REJECTED)])

    assert [(d["status"], d["receipt"]) for d in rendered(log, 1)] == [(404, None)]


def test_a_decision_whose_endpoint_was_not_told_has_no_receipt():
    world = World()
    log = log_with(world)
    log.observe([world.record(endpoint=None)])

    assert rendered(log, 1)[0]["receipt"] is None


def test_fields_that_say_nothing_are_left_out():
    world = World()
    log = log_with(world)
    log.observe([world.record(usage=None)])

    assert not {"cached_tokens", "retries", "adapter", "error"} & set(rendered(log, 1)[0])
    assert rendered(log, 1)[0]["priority"] == 0


def test_neither_prompts_nor_credentials_stay_in_memory():
    world = World()
    log = log_with(world)
    record = world.record()
    cycle = record.decision.cycle
    cycle.chain = (1, 2, 3)
    kept = log.observe([record])
    assert kept is None

    assert cycle.chain == ()
    assert (cycle.request.prompts, cycle.request.salt, cycle.headers) == ((), "", {})
    assert (cycle.request.model, cycle.request.body_bytes, cycle.request.stream) == ("m", 1300, True)
    assert SENTINEL not in json.dumps(rendered(log, 1))
    gc.collect()
    assert [p for p in gc.get_objects() if type(p) is Prompt and SENTINEL.encode() in p.data] == []


def test_a_request_without_prompts_stays_what_scorers_know_it_by():
    world = World()
    record = world.record()
    cycle = record.decision.cycle
    cycle.request = asked = msgspec.structs.replace(cycle.request, prompts=(), salt="", stored_response="r")
    log_with(world).observe([record])

    assert cycle.request is asked


def test_a_ring_of_size_zero_keeps_nothing():
    world = World()
    log = log_with(world, keep=0)
    log.observe([world.record()])

    assert rendered(log, 5) == []
