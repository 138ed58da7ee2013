"""One request's life: what is taken, confirmed, taken back, released and learned."""

import json
import zlib
from dataclasses import replace

import pytest

from epp.compose import CoreOptions
from epp.director.director import Limits
from epp.director.retry import RetryPolicy
from epp.director.types import EndReason, Failure, FailureKind, RequestHead
from epp.director.views import Tier
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import EndpointMetrics, ModelInfo
from epp.errors import (
    BadRequestError,
    ModelNotFoundError,
    NoEndpointsError,
    PayloadTooLargeError,
    SaturatedError,
    ShuttingDownError,
)
from epp.request.types import Api
from tests.director.core import TIERED, Pool, usage

PROMPT = "The quick brown fox jumps over the lazy dog. " * 64  # 2,880 bytes: 45 blocks of 64


def held(pool, i, view=0):
    return pool.index.blocks(view, pool.endpoint(i).slot)


def test_a_repeat_goes_where_its_prefix_is_held():
    pool = Pool()
    first = pool.serve(PROMPT, usage=usage(720))
    second, target = pool.send(PROMPT, 3.0)

    assert target.address == first.target.address
    assert second.predicted == {Tier.GPU: 704, Tier.CPU: 0}


def test_a_pick_raises_the_ledger_and_claims_the_prefix_in_the_same_step():
    pool = Pool()
    _, target = pool.send(PROMPT)
    slot = target.slot

    assert (pool.ledger.requests[slot], pool.ledger.tokens[slot]) == (1, 720)
    assert (pool.index.blocks(0, slot), pool.index.blocks(1, slot)) == (45, 45)


def test_a_burst_of_equal_prompts_sees_itself():
    pool = Pool()
    _, first = pool.send(PROMPT)
    _, second = pool.send(PROMPT)

    assert second.address == first.address


def test_the_gpu_tier_also_holds_the_expected_answer_in_whole_engine_blocks():
    pool = Pool()
    _, target = pool.send(PROMPT, max_tokens=50)

    assert pool.index.tokens(0, target.slot) == 768  # of 720 + 50
    assert pool.index.tokens(1, target.slot) == 720


def test_the_real_length_of_the_answer_replaces_the_expected_one():
    pool = Pool()
    exchange = pool.serve(PROMPT, usage=usage(720, completion=300))

    assert pool.index.tokens(0, exchange.target.slot) == 1008  # of 720 + 300
    assert pool.index.tokens(1, exchange.target.slot) == 720


def test_the_tail_of_a_prompt_takes_room_in_both_tiers_once_it_fills_an_engine_block():
    config = Pool().config.replace("blockSize: 64", "blockSize: 256")
    pool = Pool(n=1, config=config)
    pool.serve("x" * 500, usage=usage(125))  # one block of 64 tokens, and 61 more

    assert (pool.index.blocks(0, 0), pool.index.blocks(1, 0)) == (1, 1)
    assert pool.index.tokens(0, 0) == 128  # of 125 + 4
    assert pool.index.tokens(1, 0) == 112  # of 125


def test_what_is_beyond_the_cap_takes_room_though_nothing_stands_for_it():
    config = Pool().config.replace("blockSize: 64}", "blockSize: 64, maxPrefixTokensToMatch: 160}")
    pool = Pool(n=1, config=config)
    pool.send(PROMPT, max_tokens=1)

    assert pool.index.blocks(0, 0) == 10
    assert pool.index.tokens(0, 0) == 720


def test_an_answer_that_teaches_another_ratio_corrects_what_its_prompt_weighs():
    pool = Pool(n=1)
    pool.serve(PROMPT, usage=usage(1440))  # 2 bytes a token, where 4 were assumed

    assert (pool.index.blocks(0, 0), pool.index.blocks(1, 0)) == (45, 45)
    assert (pool.index.tokens(0, 0), pool.index.tokens(1, 0)) == (1440, 1440)


def test_a_small_difference_leaves_the_weights_as_they_are():
    pool = Pool(n=1)
    pool.serve(PROMPT, usage=usage(750))

    assert pool.index.tokens(1, 0) == 720


def test_weights_of_blocks_that_others_use_since_stay():
    pool = Pool(n=1)
    first, _ = pool.send(PROMPT)
    pool.send(PROMPT, 1.5)
    pool.answer(first, usage=usage(1440))

    assert pool.index.blocks(1, 0) == 45
    assert pool.index.tokens(1, 0) == 720


def test_the_text_of_a_prompt_is_not_kept_once_it_is_hashed():
    assert Pool().send(PROMPT)[0].request.prompts == ()


def test_answer_lengths_are_learned():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720, completion=300))
    _, target = pool.send("x" * 64)

    assert pool.index.tokens(0, target.slot) >= 300


def test_the_first_byte_releases_the_tokens_and_the_end_the_request():
    pool = Pool()
    exchange, target = pool.send(PROMPT)
    pool.director.on_response_head(exchange, 200, 1.5)
    pool.director.on_first_byte(exchange, 1.6)
    pool.director.on_first_byte(exchange, 1.7)

    assert (pool.ledger.requests[target.slot], pool.ledger.tokens[target.slot]) == (1, 0)
    pool.director.on_end(exchange, EndReason.COMPLETE, 2.0)
    assert (pool.ledger.requests[target.slot], pool.ledger.tokens[target.slot]) == (0, 0)
    assert exchange.first_byte_at == 1.6


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_a_head_that_is_not_2xx_takes_the_claim_back(status):
    pool = Pool()
    exchange, target = pool.send(PROMPT)
    pool.director.on_response_head(exchange, status, 1.5)
    pool.director.on_end(exchange, EndReason.COMPLETE, 2.0)

    assert pool.index.tokens(0, target.slot) == 0
    assert pool.ledger.total() == 0


def test_a_client_that_leaves_before_the_head_leaves_no_claim():
    pool = Pool()
    exchange, target = pool.send(PROMPT)
    pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, 2.0)

    assert pool.index.tokens(0, target.slot) == 0
    assert pool.ledger.total() == 0


def test_a_stream_that_the_client_leaves_keeps_what_was_computed():
    pool = Pool()
    exchange, target = pool.send(PROMPT)
    pool.director.on_response_head(exchange, 200, 1.5)
    pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, 2.0)

    assert pool.index.blocks(0, target.slot) == 45


def test_a_failed_claim_leaves_what_others_hold():
    pool = Pool()
    first = pool.serve(PROMPT, usage=usage(720))
    exchange, target = pool.send(PROMPT + "tail " * 64, 3.0)
    pool.director.on_response_head(exchange, 500, 3.5)
    pool.director.on_end(exchange, EndReason.COMPLETE, 4.0)

    assert target.address == first.target.address
    assert pool.index.blocks(0, target.slot) == 45


def test_a_request_ends_once_and_tells_observers_once():
    pool = Pool()
    exchange, target = pool.send(PROMPT)
    pool.director.on_end(exchange, EndReason.TIMEOUT, 2.0)
    pool.director.on_end(exchange, EndReason.COMPLETE, 3.0)

    assert [r.reason for r in pool.records] == [EndReason.TIMEOUT]
    assert pool.ledger.requests[target.slot] == 0


def test_a_connect_failure_goes_to_the_next_endpoint_and_does_not_count():
    pool = Pool()
    exchange, first = pool.send(PROMPT)
    second = pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), 1.1)
    third = pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), 1.2)
    fourth = pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), 1.3)

    assert {first.address, second.address, third.address} == {s.address for s in pool.specs}
    assert fourth is None
    assert (exchange.executions, exchange.attempts) == (0, 3)
    assert pool.ledger.total() == 0
    assert [pool.index.size(v) for v in (0, 1)] == [0, 0]


def test_an_endpoint_that_warms_up_is_tried_when_every_candidate_failed():
    pool = Pool(n=1)
    pool.core.upkeep.sync_endpoints([*pool.specs, parse_endpoint("http://10.0.0.2:8000")], 100.0)
    while not pool.ledger.requests[pool.endpoint(2).slot]:
        pool.send("another prompt", 100.1)
    exchange, first = pool.send(PROMPT, 100.1)
    second = pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), 100.2)

    assert [first.address, second.address] == ["10.0.0.1:8000", "10.0.0.2:8000"]
    assert pool.ledger.requests[second.slot] == 2


def test_one_ejected_endpoint_is_tried_when_every_candidate_failed():
    pool = Pool(n=5)
    for i in (1, 2):
        pool.core.state.health.on_engine_down(pool.endpoint(i), 1.0)
    exchange, target = pool.send(PROMPT, 1.1)
    tried = []
    while target is not None:
        tried.append(target.address)
        target = pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), 1.2)

    assert sorted(tried[:3]) == ["10.0.0.3:8000", "10.0.0.4:8000", "10.0.0.5:8000"]
    assert len(tried) == 4


def test_what_a_gateway_does_not_allow_is_no_last_resort():
    pool = Pool(n=2)
    exchange = pool.open({"model": "m", "prompt": PROMPT})
    exchange.subset = frozenset({"10.0.0.1:8000"})
    pool.director.pick(exchange, 1.0)

    assert (
        pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), 1.1) is None
    )


def test_what_filters_drop_is_no_last_resort():
    big = "{type: label-selector-filter, name: big, parameters: {matchLabels: {size: big}}}"
    config = TIERED.replace("- type: queue-scorer\n", f"- type: queue-scorer\n- {big}\n")
    pool = Pool(n=2, config=config.replace("  plugins:\n", "  plugins:\n  - {pluginRef: big}\n"))
    labelled = replace(pool.specs[0], labels={"size": "big"})
    pool.core.upkeep.sync_endpoints([labelled, pool.specs[1]], 0.0)
    exchange, first = pool.send(PROMPT)

    assert first.address == "10.0.0.1:8000"
    assert (
        pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), 1.1) is None
    )


def test_a_request_for_a_stored_response_has_no_last_resort():
    pool = Pool(n=2)
    first = pool.open({"model": "m", "input": "hi"}, path="/v1/responses")
    holder = pool.director.pick(first, 1.0)
    pool.director.on_stored_response(first, "resp_1", 1.1)
    exchange = pool.open(
        {"model": "m", "input": "on", "previous_response_id": "resp_1"}, path="/v1/responses"
    )
    target = pool.director.pick(exchange, 1.2)

    assert target.address == holder.address
    assert (
        pool.director.next_after_failure(exchange, Failure(FailureKind.CONNECT, written=False), 1.3) is None
    )


def test_a_reused_connection_that_closed_is_repeated_fresh_at_the_same_endpoint_without_a_mark():
    pool = Pool(options=CoreOptions(seed=7))
    exchange, first = pool.send(PROMPT)
    again = pool.director.next_after_failure(exchange, Failure(FailureKind.CLOSED_REUSED), 1.1)

    assert (again.address, again.fresh_connection) == (first.address, True)
    assert exchange.executions == 2
    assert pool.ledger.requests[first.slot] == 1


def test_a_fresh_connection_that_breaks_moves_the_claim_to_the_next_endpoint():
    pool = Pool()
    exchange, first = pool.send(PROMPT)
    second = pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), 1.1)

    assert second.address != first.address
    assert pool.index.blocks(0, first.slot) == 0
    assert pool.index.blocks(0, second.slot) == 45
    assert (pool.ledger.requests[first.slot], pool.ledger.requests[second.slot]) == (0, 1)


def test_three_broken_connections_in_a_row_eject_an_endpoint():
    pool = Pool(n=4)
    for now in (1.0, 2.0, 3.0):
        exchange, target = pool.send(PROMPT, now)
        while target.address != "10.0.0.1:8000":
            target = pool.director.next_after_failure(
                exchange, Failure(FailureKind.CONNECT, written=False), now
            )
            if target is None:
                break
        pool.director.on_end(exchange, EndReason.REJECTED, now)
    for i in (2, 3, 4):
        pool.core.state.health.on_response(pool.endpoint(i), 3.0)
    picked = {pool.send(f"{i} " * 64, 3.5)[1].address for i in range(12)}

    assert picked <= {"10.0.0.2:8000", "10.0.0.3:8000", "10.0.0.4:8000", "10.0.0.1:8000"}


def test_a_dead_engine_is_ejected_at_once():
    pool = Pool(n=4)
    exchange, first = pool.send(PROMPT)
    second = pool.director.next_after_failure(exchange, Failure(FailureKind.ENGINE_DOWN), 1.1)
    picked = {pool.send(f"{i} " * 64, 1.2)[1].address for i in range(16)}

    assert second.address != first.address
    assert exchange.ejected == [first.address]
    assert first.address not in picked


def test_503_goes_to_the_next_endpoint_without_a_mark():
    pool = Pool()
    exchange, first = pool.send(PROMPT)
    pool.director.next_after_failure(exchange, Failure(FailureKind.UNAVAILABLE), 1.1)

    assert exchange.ejected == []
    assert pool.core.state.health.ejected(pool.endpoint(1), 1.2) is None
    assert first.address in {s.address for s in pool.specs}


def test_the_budget_of_repeats_is_not_spent_where_nobody_is_left():
    pool = Pool(n=1, options=CoreOptions(seed=7, timer=lambda: 0.0, retry=RetryPolicy(budget_minimum=1)))
    for _ in range(3):
        exchange, _ = pool.send(PROMPT)
        assert pool.director.next_after_failure(exchange, Failure(FailureKind.UNAVAILABLE), 1.1) is None
    second = parse_endpoint("http://10.0.0.2:8000")
    pool.core.upkeep.sync_endpoints([*pool.specs, second], 1.2)
    repeats = []
    for _ in range(2):
        exchange, _ = pool.send(PROMPT, 1.3)
        repeats.append(pool.director.next_after_failure(exchange, Failure(FailureKind.UNAVAILABLE), 1.3))

    assert [target is not None for target in repeats] == [True, False]


def test_a_first_byte_timeout_marks_and_is_not_repeated():
    pool = Pool()
    targets = set()
    for now in (1.0, 2.0, 3.0):
        exchange, target = pool.send(PROMPT, now)
        targets.add(target.address)
        assert (
            pool.director.next_after_failure(exchange, Failure(FailureKind.FIRST_BYTE_TIMEOUT), now) is None
        )

    assert pool.ledger.total() == 0


@pytest.mark.parametrize("field", ["store", "background"])
def test_requests_with_an_effect_are_not_sent_twice_once_written(field):
    pool = Pool()
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], field: True}
    exchange = pool.open(body, path="/v1/chat/completions")
    pool.director.pick(exchange, 1.0)

    assert pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), 1.1) is None


def test_an_endpoint_that_drains_or_left_is_no_fallback():
    pool = Pool(n=3)
    exchange, first = pool.send(PROMPT)
    others = [s.address for s in pool.specs if s.address != first.address]
    pool.core.table.mark_draining(others[0])
    pool.core.table.remove(others[1])

    assert pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), 1.1) is None


def test_a_path_without_a_visible_prompt_is_routed_by_load_alone():
    pool = Pool()
    exchange = pool.open(b"{not json", path="/v1/some/future/route")
    target = pool.director.pick(exchange, 1.0)

    assert exchange.request.api is Api.OTHER
    assert exchange.predicted == {}
    assert pool.index.tokens(0, target.slot) == 0
    assert pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), 1.1) is None


def test_a_request_without_a_visible_prompt_ends_like_any_other():
    pool = Pool()
    exchange = pool.open(b"{not json", path="/v1/some/future/route")
    pool.director.pick(exchange, 1.0)
    pool.answer(exchange)

    assert pool.ledger.total() == 0
    assert [r.reason for r in pool.records] == [EndReason.COMPLETE]


def test_get_requests_may_be_sent_again():
    pool = Pool()
    exchange = pool.open(b"", path="/tokenizer_info", method="GET")
    pool.director.pick(exchange, 1.0)

    assert pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN), 1.1) is not None


def test_no_endpoint_is_503():
    pool = Pool(n=0)
    exchange = pool.open({"model": "m", "prompt": "hi"})

    with pytest.raises(NoEndpointsError, match="no endpoint serves model 'm'"):
        pool.director.pick(exchange, 1.0)


def test_without_a_model_the_message_speaks_of_endpoints():
    pool = Pool(n=0)
    exchange = pool.open(b"", path="/x", method="GET")

    with pytest.raises(NoEndpointsError, match="no endpoint is known"):
        pool.director.pick(exchange, 1.0)


def test_endpoints_that_all_drain_are_503():
    pool = Pool(n=1)
    pool.core.table.mark_draining("10.0.0.1:8000")
    exchange = pool.open({"model": "m", "prompt": "hi"})

    with pytest.raises(NoEndpointsError, match="draining or unreachable"):
        pool.director.pick(exchange, 1.0)


def test_endpoints_at_their_limit_are_429_and_free_ones_are_used():
    limits = Limits(inflight_per_endpoint=1)
    pool = Pool(n=2, options=CoreOptions(seed=7, limits=limits))
    first = pool.send(PROMPT)[1]
    second = pool.send(PROMPT)[1]

    assert first.address != second.address
    with pytest.raises(SaturatedError, match="limit"):
        pool.send(PROMPT)


def test_an_unknown_model_is_404_when_all_endpoints_told_theirs():
    pool = Pool(n=1)
    pool.core.upkeep.on_models("10.0.0.1:8000", pool.endpoint(1).incarnation, (ModelInfo("m"),), 0.5)

    with pytest.raises(ModelNotFoundError):
        pool.open({"model": "nope", "prompt": "hi"})


def test_adapters_have_chains_of_their_own():
    pool = Pool(n=1)
    models = (ModelInfo("m"), ModelInfo("lora-1", parent="m"))
    pool.core.upkeep.on_models("10.0.0.1:8000", pool.endpoint(1).incarnation, models, 0.5)
    pool.serve(PROMPT, usage=usage(720))
    other = pool.open({"model": "lora-1", "prompt": PROMPT})
    pool.director.pick(other, 3.0)

    assert other.predicted == {Tier.GPU: 0, Tier.CPU: 0}


def test_another_cache_salt_shares_nothing():
    pool = Pool(n=1)
    pool.serve(PROMPT, usage=usage(720), cache_salt="a")
    other = pool.send(PROMPT, 2.0, cache_salt="b")[0]
    same = pool.send(PROMPT, 3.0, cache_salt="a")[0]

    assert other.predicted[Tier.GPU] == 0
    assert same.predicted[Tier.GPU] == 704


def test_a_malformed_body_is_400_and_nothing_is_taken():
    pool = Pool()
    with pytest.raises(BadRequestError):
        pool.open(b'{"model":')

    assert pool.ledger.total() == 0


def test_a_compressed_body_is_read_for_routing_under_a_cap():
    body = zlib.compress(json.dumps({"model": "m", "prompt": PROMPT}).encode())
    pool = Pool(options=CoreOptions(limits=Limits(inflated_bytes=10_000)))
    exchange = pool.open(body, headers={"content-encoding": "deflate"})

    assert exchange.prompt_tokens == 720
    assert exchange.body_bytes == len(body)
    with pytest.raises(PayloadTooLargeError):
        pool.open(zlib.compress(b" " * 20_000), headers={"content-encoding": "deflate"})


def test_several_prompts_are_matched_one_by_one_and_summed():
    pool = Pool(n=1)
    pool.serve([PROMPT, "other " * 64], usage=usage(816))
    both = pool.send([PROMPT, "other " * 64], 2.0)[0]
    one = pool.send(["other " * 64, "new thing " * 64], 3.0)[0]

    assert both.matches["gpu"].segments == ((1, 51),)
    assert one.matches["gpu"].segments == ((1, 6),)


def test_token_ids_are_exact_from_the_first_request():
    pool = Pool(n=1)
    ids = list(range(1000))
    pool.serve(ids, usage=usage(1000))
    exchange = pool.send(ids, 2.0)[0]

    assert exchange.prompt_tokens == 1000
    assert exchange.predicted[Tier.GPU] == 992
    assert pool.core.state.ratios.assumed("m")


def test_usage_teaches_the_prompts_family():
    pool = Pool(n=1)
    pool.serve(PROMPT, usage=usage(960))
    exchange = pool.send(PROMPT, 2.0)[0]

    assert exchange.prompt_tokens == 960
    assert exchange.predicted[Tier.GPU] == 944


def test_without_usage_the_prompt_counter_teaches_the_model():
    pool = Pool(n=1)

    def scrape(total):
        metrics = EndpointMetrics(prompt_tokens_total=total)
        pool.core.upkeep.on_metrics("10.0.0.1:8000", pool.endpoint(1).incarnation, metrics, 1.0)

    scrape(0.0)
    pool.serve(PROMPT)
    scrape(960.0)

    assert pool.core.state.ratios.bytes_per_token("m") == pytest.approx(3.0, abs=0.01)


def test_token_id_prompts_without_usage_teach_nothing():
    pool = Pool(n=1)
    pool.serve(list(range(100)))

    assert pool.core.state.ratios.assumed("m")


def test_prompt_beyond_the_cap_is_not_hashed():
    config = Pool().config.replace("blockSize: 64}", "blockSize: 64, maxPrefixTokensToMatch: 160}")
    pool = Pool(n=1, config=config)
    pool.serve(PROMPT, usage=usage(720))
    exchange = pool.send(PROMPT, 2.0)[0]

    assert exchange.matches["gpu"].total_blocks == 10
    assert exchange.matches["gpu"].segments == ((1, 10),)
    assert exchange.matches["cpu"].segments == ((1, 45),)


def test_no_cap_hashes_everything():
    config = Pool().config.replace("blockSize: 64}", "blockSize: 64, maxPrefixTokensToMatch: 0}")
    pool = Pool(n=1, config=config)

    assert pool.serve(PROMPT, usage=usage(720)).matches["gpu"].total_blocks == 45


def test_a_prompt_shorter_than_a_block_matches_nowhere():
    pool = Pool(n=1)
    pool.serve("hi", usage=usage(1))
    exchange = pool.send("hi", 2.0)[0]

    assert exchange.matches["gpu"].segments == ()
    assert exchange.chains.family is None


def test_the_record_tells_the_whole_story():
    pool = Pool(options=CoreOptions(seed=7, timer=iter(range(1000)).__next__))
    pool.director.tells_chains = True
    pool.serve(PROMPT, usage=usage(720))
    exchange, _ = pool.send(PROMPT, 3.0, stream=True)
    pool.director.next_after_failure(exchange, Failure(FailureKind.CLOSED_REUSED), 3.1)
    pool.answer(exchange, usage=usage(720, 5, 704), now=4.0)
    record = pool.records[-1]

    assert (record.status, record.reason, record.error) == (200, EndReason.COMPLETE, None)
    assert (record.attempts, record.executions, record.retries) == (2, 2, (FailureKind.CLOSED_REUSED,))
    assert (record.predicted_gpu_tokens, record.predicted_cpu_tokens) == (704, 0)
    assert (record.prompt_tokens_estimated, record.target_model, record.stream) == (720, "m", True)
    assert (record.arrived, record.first_byte_at, record.ended_at) == (3.0, 4.0, 4.0)
    assert record.usage == usage(720, 5, 704)
    assert record.decision_s == 1
    assert record.prepare_s == 1
    assert len(record.chain) == 1  # 720 tokens are one full 512
    assert record.endpoint == exchange.target.address


def test_a_record_has_no_chain_unless_somebody_wants_it():
    pool = Pool()
    pool.serve(PROMPT, usage=usage(720))

    assert pool.records[-1].chain == ()


def test_a_prompt_that_was_never_looked_up_has_no_chain():
    pool = Pool(n=1)
    pool.director.tells_chains = True
    exchange = pool.director.open(pool.open(b"", path="/x", method="GET").head, 1.0)
    pool.director.on_end(exchange, EndReason.CLIENT_DISCONNECTED, 2.0)

    assert pool.records[-1].chain == ()


def test_an_own_error_stands_in_the_record():
    pool = Pool(n=1)
    exchange = pool.director.open(pool.open(b"", path="/x", method="GET").head, 1.0)
    pool.director.on_end(exchange, EndReason.SHUTDOWN, 2.0, error=ShuttingDownError("no"))
    record = pool.records[-1]

    assert (record.status, record.error, record.dropped) == (503, "shutting_down", "rejected-shutting-down")
    assert (record.endpoint, record.chain, record.prompt_tokens_estimated) == (None, (), None)


def test_a_restarted_endpoint_holds_nothing_and_late_releases_do_not_reach_it():
    pool = Pool(n=1)
    exchange, target = pool.send(PROMPT)
    pool.core.table.remove("10.0.0.1:8000")
    while not pool.core.upkeep.tick(1.0):
        pass
    pool.core.upkeep.sync_endpoints(pool.specs, 1.5)
    pool.answer(exchange)
    again = pool.endpoint(1)

    assert pool.ledger.requests[again.slot] == 0
    assert pool.index.tokens(0, again.slot) == 0
    pool.index.check_integrity()
    assert pool.ledger.requests[target.slot] == 0


def test_an_upstream_answer_that_passes_after_the_last_failure_holds_nothing():
    pool = Pool(n=1)
    exchange, _ = pool.send(PROMPT)
    assert pool.director.next_after_failure(exchange, Failure(FailureKind.UNAVAILABLE), 1.1) is None
    pool.director.on_response_head(exchange, 503, 1.2)
    pool.director.on_first_byte(exchange, 1.2)
    pool.director.on_end(exchange, EndReason.COMPLETE, 1.3)

    assert pool.ledger.total() == 0
    assert (pool.records[-1].status, pool.records[-1].first_byte_at) == (503, 1.2)


def test_usage_without_an_answer_length_teaches_bytes_per_token_alone():
    pool = Pool(n=1)
    pool.serve(PROMPT, usage=usage(960, completion=None))

    assert pool.core.state.ratios.bytes_per_token("m") == pytest.approx(3.0, abs=0.01)
    assert pool.director._learning._outputs.expected("m", None) == 128


def test_the_time_of_preparing_leaves_out_what_happened_between_its_steps():
    ticks = iter(range(10_000))
    config = Pool().config.replace("blockSize: 64", "blockSize: 64, maxPrefixTokensToMatch: 0")
    pool = Pool(n=1, config=config, options=CoreOptions(seed=7, timer=ticks.__next__))
    exchange = pool.director.open(RequestHead("r", "POST", "/v1/completions"), 1.0)
    for _ in pool.director.prepare(
        exchange, json.dumps({"model": "m", "prompt": "x" * 3_000_000}).encode(), 1.0
    ):
        for _ in range(100):
            next(ticks)

    assert exchange.prepare_s < 40


def test_of_many_prompts_the_first_64_are_looked_up_and_the_others_are_text_without_blocks():
    pool = Pool(n=1)
    batch = [f"{number % 1000:03} " * 64 for number in range(2048)]
    pool.serve(batch)
    exchange, _ = pool.send(batch, 2.0)
    match = exchange.matches["gpu"]

    assert (match.blocks(0), match.total_blocks) == (64 * 4, 64 * 4)
    assert exchange.prompt_tokens == 2048 * 64
    assert pool.index.tokens(0, pool.endpoint(1).slot) >= 2048 * 64 - 128


def test_between_long_prompts_of_a_batch_others_have_their_turn():
    pool = Pool(n=1)
    body = json.dumps({"model": "m", "prompt": ["a" * 200_000] * 12}).encode()
    exchange = pool.director.open(RequestHead("r", "POST", "/v1/completions"), 1.0)

    # Receiving; counting elements, decoding and writing 2.4 MB; hashing as much.
    assert len(list(pool.director.prepare(exchange, body, 1.0))) == 1 + (3 + 1 + 2) + 2
