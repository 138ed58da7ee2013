"""Bytes per token."""

import pytest

from epp.director.tokens import CounterRatios, TokenRatios
from epp.endpoints.types import EndpointMetrics


def test_four_bytes_are_assumed_until_something_was_learned():
    ratios = TokenRatios()

    assert (ratios.bytes_per_token("m"), ratios.assumed("m")) == (4.0, True)
    ratios.learn("m", 300, 100)
    assert (ratios.bytes_per_token("m"), ratios.assumed("m")) == (3.0, False)


def test_a_model_forgets_97_percent_of_its_past_in_ten_reports():
    ratios = TokenRatios()
    ratios.learn("m", 400, 100)
    for _ in range(10):
        ratios.learn("m", 200, 100)

    assert ratios.bytes_per_token("m") == pytest.approx(2.0565, abs=1e-4)


def test_a_family_is_known_after_one_report_whatever_the_model_learns_elsewhere():
    ratios = TokenRatios()
    ratios.learn("m", 200, 100, family=1)
    ratios.learn("m", 600, 100, family=2)

    assert ratios.bytes_per_token("m", 1) == 2.0
    assert ratios.bytes_per_token("m", 2) == 6.0
    assert ratios.bytes_per_token("m", 3) == pytest.approx(3.2)
    assert ratios.models() == {"m": pytest.approx(3.2)}


@pytest.mark.parametrize("report", [(0, 10), (10, 0), (-1, 1), (100, 1), (1, 10)])
def test_what_is_not_text_teaches_nothing(report):
    ratios = TokenRatios()
    ratios.learn("m", *report, family=1)

    assert ratios.assumed("m")
    assert ratios.bytes_per_token("m", 1) == 4.0


def test_families_are_bounded_and_the_oldest_goes_first():
    ratios = TokenRatios()
    for family in range(8193):
        ratios.learn("m", 300, 100, family=family)
    ratios.learn("n", 600, 100)

    assert ratios.bytes_per_token("m", 0) == pytest.approx(3.0)  # the model's
    assert len(ratios.families()) == 8192


def test_tokenize_gives_a_start_value_that_requests_overrule():
    ratios = TokenRatios()
    ratios.set_initial("m", 3.0)
    ratios.set_initial("m", 5.0)
    ratios.set_initial("n", 50.0)

    assert ratios.bytes_per_token("m") == 3.0
    assert ratios.assumed("n")


def scrape(total):
    return EndpointMetrics(prompt_tokens_total=total)


def test_growth_of_the_prompt_counter_between_two_quiet_scrapes_teaches_the_model():
    ratios = TokenRatios()
    counters = CounterRatios(ratios)
    counters.scraped(0, scrape(1000.0), 0)
    counters.sent(0, "m", 200)
    counters.sent(0, "m", 100)
    counters.scraped(0, scrape(1050.0), 1)  # busy: what is in flight has counted in part
    counters.scraped(0, scrape(1100.0), 0)

    assert ratios.bytes_per_token("m") == 3.0


def test_intervals_with_two_models_or_unknown_prompts_teach_nothing():
    ratios = TokenRatios()
    counters = CounterRatios(ratios)
    counters.scraped(0, scrape(0.0), 0)
    counters.sent(0, "m", 300)
    counters.sent(0, "n", 300)
    counters.scraped(0, scrape(200.0), 0)
    counters.sent(0, "m", 300)
    counters.spoiled(0)
    counters.scraped(0, scrape(300.0), 0)
    counters.scraped(0, EndpointMetrics(), 0)

    assert ratios.assumed("m")
    assert ratios.assumed("n")


def test_between_two_scrapes_no_more_than_two_models_are_remembered():
    ratios = TokenRatios()
    counters = CounterRatios(ratios)
    counters.scraped(0, EndpointMetrics(prompt_tokens_total=0.0), 0)
    for number in range(100):
        counters.sent(0, f"made-up-{number}", 400)
    counters.scraped(0, EndpointMetrics(prompt_tokens_total=100.0), 0)

    assert ratios.models() == {}
