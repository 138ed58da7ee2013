"""What a core on record decides, another one decides again: each way in which a request may go."""

import msgspec
import pytest

from epp.config import load_config
from epp.director.director import Director
from epp.director.pick import pick_list, pick_now
from epp.director.types import EndReason, Failure, FailureKind, RequestHead
from epp.director.upkeep import Upkeep
from epp.errors import NoEndpointsError
from epp.recording.events import (
    Committed,
    Ended,
    LookedOn,
    Numbers,
    Opened,
    Picked,
    Prepared,
    Served,
    Stored,
)
from epp.recording.framing import FIRST_LINE, add_entry, frame
from epp.recording.recorded import RecordedDirector, RecordedUpkeep
from epp.request import RewriteRule, RewriteTarget
from epp.simulate.replay import ReplayError
from tests.director.core import TIERED, usage
from tests.recording.kit import RANDOM, RecordedPool, events_of, header, replayed

LONG = "the quick brown fox jumps over the lazy dog " * 40
CHAT = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
SESSIONS = TIERED.replace(
    "- type: queue-scorer",
    "- {type: session-affinity-scorer, parameters:"
    " {strategy: session_id, sessionIdConfig: {sources: [{header: HEADER}]}}}\n- type: queue-scorer",
).replace(
    "  - {pluginRef: queue", "  - {pluginRef: session-affinity-scorer, weight: 3}\n  - {pluginRef: queue"
)


def public(kind):
    """Names of the methods that others may call."""
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


def test_every_call_that_may_change_the_core_is_on_record():
    reads = {"response_headers"}
    recorded_elsewhere = {"adopt", "adopt_views"}  # a reload, which is one event

    assert public(Director) - public(RecordedDirector) - reads - recorded_elsewhere == set()
    assert public(Upkeep) - public(RecordedUpkeep) - recorded_elsewhere == set()


def same(pool, decisions, config=None):
    """Its replay, in which so many decisions came out as they were."""
    replay = pool.replayed(config)
    assert (replay.decisions, replay.different, replay.differences) == (decisions, 0, [])
    return replay


def test_requests_that_share_prefixes_are_decided_again():
    pool = RecordedPool()
    for i in (1, 2, 3):
        pool.tell_models(i, "m")
        pool.scrape(i, 0.5, waiting=float(i), running=1.0, kv_usage=0.1 * i, block_tokens=16)
    for n in range(12):
        pool.serve(LONG[: 200 * (n % 4 + 1)] + str(n), 1.0 + n, usage=usage(50 + n, 9))
        pool.upkeep.tick(1.0 + n)

    replay = same(pool, 12)

    assert (replay.requests, replay.started, replay.now) == (12, 0.0, 12.0)
    assert replay._core.state.ledger.picks == pool.ledger.picks
    assert replay._core.state.ratios.models() == pool.core.state.ratios.models()


def test_random_picks_are_drawn_again_those_of_gateways_and_questions_too():
    pool = RecordedPool(config=RANDOM)
    for n in range(8):
        exchange = pool.open({"model": "m", "prompt": f"{n}{LONG}"}, now=float(n))
        assert len(pick_list(pool.director, exchange, float(n))) == 2
        head = RequestHead(f"q{n}", "POST", "/v1/chat/completions")
        pick_now(pool.director, head, CHAT, float(n), commit=n % 2 == 0)
        pool.answer(exchange, now=float(n))
    events, _ = events_of(pool.written())

    # A gateway's second endpoint; for a question two, and a third that is looked at in vain.
    assert sum(isinstance(event, LookedOn) for event in events) == 8 * 1 + 8 * 3
    assert replayed(pool.written()).different == 0
    same(pool, 16)


def test_models_that_a_rule_rewrote_are_decided_again_as_they_were_drawn():
    pool = RecordedPool()
    for i in (1, 2, 3):
        pool.tell_models(i, "m-v1", *(["m-v2"] if i == 3 else []))
    targets = (RewriteTarget("m-v1"), RewriteTarget("m-v2"))
    pool.core.options.rewrites.use_found([RewriteRule(("m",), targets, "canary")])
    drawn = [pool.serve(LONG, 1.0 + n).rewrite.target for n in range(12)]

    same(pool, 12)
    assert set(drawn) == {"m-v1", "m-v2"}


def test_failures_repeats_and_an_ejection_are_decided_again():
    pool = RecordedPool()
    for n in range(4):
        exchange, target = pool.send(f"{n}{LONG}", float(n))
        while target is not None:
            target = pool.director.next_after_failure(
                exchange, Failure(FailureKind.CONNECT, "refused", written=False), float(n)
            )
        pool.director.on_end(exchange, EndReason.REJECTED, float(n))
    assert sum(len(record.ejected) for record in pool.records) >= 3

    same(pool, 16)


def test_what_gateways_say_or_do_not_is_on_record():
    pool = RecordedPool()
    for i in (1, 2, 3):
        pool.scrape(i, 0.5, running=2.0, waiting=0.0)
    for n in range(6):
        exchange = pool.open({"model": "m", "prompt": f"{n % 2}{LONG}"}, now=1.0 + n)
        exchange.subset = frozenset({"10.0.0.1", "10.0.0.2:8000"})
        pool.director.pick(exchange, 1.0 + n)
        pool.director.on_served(exchange, "10.0.0.3:8000" if n % 2 else "10.0.0.9:1")
        pool.director.on_unobserved(exchange, 2.0 + n)
        pool.director.on_unobserved(exchange, 2.0 + n)
        pool.director.on_end(exchange, EndReason.COMPLETE, 2.0 + n)
        pool.upkeep.tick(2.0 + n)
    events, _ = events_of(pool.written())

    assert [e.subset for e in events if isinstance(e, Picked)] == [("10.0.0.1", "10.0.0.2:8000")] * 6
    assert sum(isinstance(e, Served) for e in events) == 6
    same(pool, 6)


def test_repeats_that_a_gateway_made_leave_fewer_for_the_router():
    pool = RecordedPool()
    pool.director.budget.spend(2, 0.5)
    exchange, _ = pool.send(LONG, 1.0)
    failure = Failure(FailureKind.UNAVAILABLE, "503")
    assert pool.director.next_after_failure(exchange, failure, 1.0) is not None
    assert pool.director.next_after_failure(exchange, failure, 1.0) is None
    pool.director.on_end(exchange, EndReason.REJECTED, 1.0)

    same(pool, 3)


def test_a_stored_response_is_found_again_by_its_digest():
    pool = RecordedPool()
    exchange = pool.open({"model": "m", "input": LONG}, path="/v1/responses")
    pool.director.pick(exchange, 1.0)
    pool.director.on_stored_response(exchange, "resp_secret", 1.5)
    pool.director.on_stored_response(exchange, "x" * 257, 1.5)
    pool.answer(exchange)
    again = {"model": "m", "input": "go on", "previous_response_id": "resp_secret"}
    pool.director.pick(pool.open(again, path="/v1/responses", now=3.0), 3.0)
    content = pool.written()

    assert b"resp_secret" not in b"".join(pool.pieces)
    first, second = [e.stored_response for e in events_of(content)[0] if isinstance(e, Prepared)]
    [stored] = [e.response for e in events_of(content)[0] if isinstance(e, Stored)]
    assert (first, second, len(stored)) == (None, stored, 32)
    same(pool, 2)


@pytest.mark.parametrize(("header", "shown"), [("x-user", True), ("authorization", False)])
def test_headers_are_on_record_as_far_as_they_were_read_and_credentials_as_digests(header, shown):
    pool = RecordedPool(config=SESSIONS.replace("HEADER", header))
    for n in range(6):
        headers = {header: f"secret-{n % 2}", "x-other": "1", "content-type": "application/json"}
        exchange = pool.open({"model": "m", "prompt": f"{n}{LONG}"}, headers=headers, now=float(n))
        assert dict(exchange.head.headers) == headers
        assert (len(exchange.head.headers), "x-none" in exchange.head.headers) == (3, False)
        pool.director.pick(exchange, float(n))
    content = pool.written()

    picked = [e.headers for e in events_of(content)[0] if isinstance(e, Picked)]
    assert [list(headers) for headers in picked] == [[header]] * 6
    assert picked[:2] * 3 == picked
    assert (picked[0] == {header: "secret-0"}, b"secret" in b"".join(pool.pieces)) == (shown, shown)
    same(pool, 6)


def test_endpoints_that_come_go_forget_and_fail_are_on_record():
    pool = RecordedPool()
    pool.serve(LONG)
    pool.upkeep.on_token_ratio("m", 3.5)
    pool.upkeep.on_cache_lost("10.0.0.1:8000", gpu_only=True)
    pool.upkeep.on_cache_lost("10.0.0.2:8000", gpu_only=False)
    for _ in range(4):
        pool.upkeep.on_scrape_failure("10.0.0.3:8000", 3, refused=True, now=2.0)
    pool.serve(LONG, 2.5)
    pool.upkeep.sync_endpoints(pool.specs[:2], 3.0)
    pool.upkeep.sync_endpoints([*pool.specs[:2], pool.specs[2]], 4.0)
    for n in range(20):
        pool.serve(f"{n % 3}{LONG}", 5.0 + n)

    same(pool, 22)


def test_requests_that_show_no_prompt_or_are_refused_are_on_record():
    pool = RecordedPool()
    for i in (1, 2, 3):
        pool.tell_models(i, "m")
    exchange = pool.open(b"", path="/v1/models", method="GET")
    pool.director.pick(exchange, 1.0)
    pool.answer(exchange)
    refused = pool.director.open(RequestHead("r", "POST", "/v1/completions"), 2.0)
    pool.director.on_end(refused, EndReason.REJECTED, 2.0)

    assert same(pool, 1).requests == 2


def test_a_question_that_nobody_can_serve_is_refused_again():
    pool = RecordedPool(n=0)
    with pytest.raises(NoEndpointsError):
        pick_now(pool.director, RequestHead("q", "POST", "/v1/chat/completions"), CHAT, 1.0, commit=False)

    same(pool, 1)


def test_the_model_may_go_while_a_long_prompt_is_read():
    pool = RecordedPool(n=1)
    pool.tell_models(1, "m")
    exchange = pool.director.open(RequestHead("r", "POST", "/v1/completions"), 1.0)
    steps = pool.director.prepare(exchange, msgspec.json.encode({"model": "m", "prompt": LONG * 200}), 1.0)
    for place, _ in enumerate(steps):
        if place == 0:
            pool.tell_models(1, "other", now=1.5)

    pool.director.on_end(exchange, EndReason.REJECTED, 2.0)

    assert same(pool, 0).requests == 1


def test_of_another_configuration_the_endpoints_are_compared_and_the_first_others_told():
    pool = RecordedPool()
    for i in (1, 2, 3):
        pool.scrape(i, 0.5, waiting=3.0 - i, running=1.0, kv_usage=0.3 * i)
    for n in range(30):
        pool.serve(LONG[: 400 * (n % 4)] + str(n), 1.0 + n)
    heavier = TIERED.replace("{pluginRef: queue-scorer, weight: 2}", "{pluginRef: queue-scorer, weight: 0.1}")

    same(
        pool,
        30,
        load_config(TIERED.replace("weight: 2", "weight: 2.5").replace("weight: 1}", "weight: 1.25}")),
    )
    replay = pool.replayed(load_config(heavier))

    assert (replay.decisions, replay.different, len(replay.differences), replay.scores_too) == (
        30,
        30,
        20,
        False,
    )
    first = replay.differences[0]
    assert (first.request_id, first.at_s, first.what) == ("req-1", 1.0, "endpoint")
    assert (first.recorded, first.replayed) == ("10.0.0.3:8000", "10.0.0.1:8000")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"endpoint": "10.0.0.9:1"}, "endpoint"),
        ({"error": "saturated"}, "error"),
        ({"numbers": None}, "candidates"),
        (
            {"numbers": Numbers("default", bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]), bytes(24), ())},
            "scorers and weights",
        ),
    ],
)
def test_a_difference_says_in_what(change, what):
    pool = RecordedPool()
    pool.serve(LONG)
    events, entries = events_of(pool.written())
    changed = [msgspec.structs.replace(e, **change) if isinstance(e, Picked) else e for e in events]

    [difference] = replayed(packed(entries.header, changed)).differences

    assert difference.what == what


def test_totals_that_differ_alone_are_told():
    pool = RecordedPool()
    pool.serve(LONG)
    events, entries = events_of(pool.written())
    numbers = next(e.numbers for e in events if isinstance(e, Picked))
    changed = msgspec.structs.replace(numbers, totals=bytes(24))
    events = [msgspec.structs.replace(e, numbers=changed) if isinstance(e, Picked) else e for e in events]

    [difference] = replayed(packed(entries.header, events)).differences

    assert (difference.what, difference.recorded) == ("totals", [0.0, 0.0, 0.0])


def packed(head, events):
    """A recording of these events, without an end."""
    buffer = bytearray()
    for entry in (head, *events):
        add_entry(buffer, entry)
    return FIRST_LINE + frame(buffer)


def test_what_cannot_have_happened_is_a_fault():
    content = packed(header(), [Ended(5, 1.0, EndReason.COMPLETE, None, 0)])

    with pytest.raises(ReplayError, match="Ended: KeyError 5"):
        replayed(content)


def test_a_commit_without_a_decision_is_a_fault():
    pool = RecordedPool()
    events, _ = events_of(pool.written())
    content = packed(header(), [*events, Opened(0, 1.0, "q", 0, asked=True), Committed(0, "10.0.0.1:8000")])

    with pytest.raises(ReplayError, match="Committed: ValueError nothing was decided"):
        replayed(content)


def test_requests_that_ended_long_ago_are_forgotten():
    pool = RecordedPool()
    for n in range(1_100):
        exchange, _ = pool.send("x", float(n))
        pool.answer(exchange, now=float(n))

    assert len(same(pool, 1_100)._exchanges) == 1_000
