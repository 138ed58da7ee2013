"""The adviser's rules on made-up runs, and its page."""

import json

import pytest

from epp.simulate.advice_page import as_html, as_json, as_markdown
from epp.simulate.advise import Reuse, advise, collect, refusals, reuse_of
from epp.simulate.fleet import Offload
from epp.simulate.outcome import Outcome, RequestRow
from epp.simulate.shared_prefix import SharedPrefix, closed_loop
from tests.simulate.kit import fleet
from tests.simulate.test_inputs import talk

REUSE = Reuse(requests=100, mean_prompt_tokens=5_000.0, share=0.6, tokens=50_000, ratio=1.3)


def outcome(e2e_s):
    return Outcome(rows=[RequestRow(0, 0, "a", 0.0, 1.0, e2e_s, 900, 100, 300, 0, 0, 0, 0)])


def runs(times, policy="now"):
    """Times by tier, each a list with one number a seed."""
    tiers = dict(zip(Offload, times, strict=True))
    return {(policy, tier): [outcome(e2e) for e2e in found] for tier, found in tiers.items()}


def decide(times, refused=(), **more):
    return advise(runs(times) | more, REUSE, refused, "now")


@pytest.mark.parametrize(
    ("times", "choice", "margin"),
    [
        ([[10.0], [8.0], [8.1], [8.2]], Offload.NATIVE, 0.20),
        ([[10.0], [8.0], [8.0], [6.0]], Offload.LMCACHE_SHARED, 0.40),
        ([[10.0], [8.0], [7.9], [7.9]], Offload.NATIVE, 0.20),  # alike: the simpler one
        ([[10.0], [9.9], [10.2], [10.2]], Offload.NONE, -0.01),
        ([[10.0], [10.1], [10.2], [10.3]], Offload.NONE, 0.01),
    ],
)
def test_a_tier_must_gain_two_percent_over_the_simpler_one(times, choice, margin):
    advice = decide(times)

    assert advice.choice is choice
    assert advice.margin == pytest.approx(margin)
    assert advice.confidence.startswith("unknown")


def test_a_refused_tier_is_not_chosen_whatever_it_gains():
    refused = refusals(REUSE, fleet(engines=1), most_in_flight=50)

    assert [refusal.offloads for refusal in refused] == [(Offload.LMCACHE_LOCAL, Offload.LMCACHE_SHARED)]
    assert decide([[10.0], [9.9], [5.0], [5.0]], refused).choice is Offload.NONE


def test_seeds_that_agree_make_confidence_high():
    agree = [[10.0, 10.0], [8.0, 8.1], [9.9, 9.95], [7.9, 8.0]]
    disagree = [[10.0, 10.0], [8.0, 8.1], [9.9, 9.0], [7.9, 8.0]]

    assert decide(agree).confidence == "high: all seeds agree"
    assert decide(disagree).confidence == "low: seeds disagree on lmcache-local"


def test_the_better_policy_is_advised_and_the_current_one_told():
    better = runs([[6.0], [6.0], [6.0], [6.0]], "better")
    advice = advise(runs([[10.0], [8.0], [8.0], [8.0]]) | better, REUSE, (), "now")

    assert (advice.policy, advice.choice) == ("better", Offload.NONE)
    assert (advice.current_policy, advice.current_choice) == ("now", Offload.NATIVE)


def test_little_reuse_and_short_prompts_are_refused_with_their_numbers():
    poor = Reuse(requests=100, mean_prompt_tokens=500.0, share=0.01, tokens=1, ratio=0.0)
    reasons = [refusal.reason for refusal in refusals(poor, fleet(), most_in_flight=20)]

    assert reasons[0].startswith("1.0% of the prompt tokens come again")
    assert reasons[1].startswith("prompts of 500 tokens in the mean with 20 requests in flight")
    assert refusals(REUSE, fleet(), most_in_flight=20) == []


def test_reuse_counts_what_comes_again():
    """2 groups of 2 prompts, each asked for twice: 2 x 100 + 4 x 10 tokens come again."""
    workload = closed_loop(SharedPrefix(2, 2, 100, 10, 5), requests=8, concurrency=2, seed=1)
    reuse = reuse_of(collect(workload), fleet(engines=1, gpu_tokens=1_200))

    assert (reuse.requests, reuse.mean_prompt_tokens) == (8, 110.0)
    assert reuse.tokens == 240
    assert reuse.ratio == 0.2
    assert reuse.share == pytest.approx((8 * 110 - 240) / 880)


def test_answers_come_again_in_conversations():
    requests = collect(talk(sessions=1, system_prompt_len=0))
    reuse = reuse_of(requests, fleet())

    assert reuse.tokens == requests[-1].segments[-2].end


def test_nothing_is_reused_of_nothing():
    assert reuse_of([], fleet()).share == 0.0


CHART = {
    Offload.NATIVE: [(0.3, -0.01), (0.6, 0.02), (1.2, 0.1)],
    Offload.LMCACHE_SHARED: [(0.3, -0.03), (0.6, -0.01), (1.2, 0.2)],
}


def page(render, chart=CHART, **more):
    advice = decide([[10.0], [8.0], [8.1], [8.2]], refusals(REUSE, fleet(engines=1), 1.0), **more)
    return render(advice, chart, ("vLLM: --kv-offloading-size 160.2",))


def test_the_page_says_what_by_how_much_and_why_not():
    text = page(as_markdown)

    assert text.startswith("# KV offload: native\n")
    assert "+20.0% of the mean end-to-end time against no tier" in text
    assert "Refused: lmcache-local, lmcache-shared: 1 engine" in text
    assert "Break-even: native pays from about R = 0.60 on" in text
    assert "Break-even: lmcache-shared pays from about R = 1.20 on" in text
    assert "- vLLM: --kv-offloading-size 160.2" in text


def test_a_chart_without_gains_or_without_points():
    assert "does not pay at any R that was tried" in page(as_markdown, {Offload.NATIVE: [(0.3, -0.01)]})
    assert "Break-even" not in page(as_markdown, {})
    assert "<svg" not in page(as_html, {})


def test_json_and_html_hold_the_same():
    shown = json.loads(page(as_json))

    assert shown["choice"] == "native"
    assert [option["gain"] for option in shown["options"]] == [0.0, 0.2, 0.19, 0.18]
    assert shown["break_even"]["native"][0] == {"ratio": 0.3, "gain": -0.01}
    assert shown["break_even"]["lmcache-shared"][2] == {"ratio": 1.2, "gain": 0.2}
    assert "<svg" in page(as_html)
