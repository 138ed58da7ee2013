"""Token counts from whatever an endpoint reports."""

import pytest

from epp.response import Usage, merge_usage, usage_of
from epp.response.usage import usage_in_document


def test_openai_usage():
    reported = {
        "prompt_tokens": 2218,
        "total_tokens": 2222,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 2208, "created_cache_tokens": None},
    }
    assert usage_of(reported) == Usage(2218, 4, 2208)


def test_responses_api_usage():
    reported = {"input_tokens": 36, "input_tokens_details": {"cached_tokens": 32}, "output_tokens": 87}
    assert usage_of(reported) == Usage(36, 87, 32)


def test_anthropic_usage_counts_what_the_cache_read_and_wrote():
    reported = {
        "input_tokens": 10,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 90,
        "output_tokens": 5,
    }
    assert usage_of(reported) == Usage(1000, 5, 900)


def test_anthropic_usage_without_a_cache():
    nulls = {"input_tokens": 100, "output_tokens": 0, "cache_read_input_tokens": None}
    assert usage_of(nulls) == Usage(100, 0, None)


def test_a_count_that_is_not_reported_is_unknown_not_zero():
    assert usage_of({"prompt_tokens": 7}) == Usage(7, None, None)
    assert usage_of({"completion_tokens": 0}) == Usage(None, 0, None)
    assert usage_of({"prompt_tokens_details": {"cached_tokens": 5}}) == Usage(None, None, 5)
    assert usage_of({"prompt_tokens": 7, "prompt_tokens_details": None}) == Usage(7, None, None)


@pytest.mark.parametrize(
    "reported",
    [
        None,
        "oops",
        [],
        {},
        0,
        {"prompt_token_details": 0},
        {"prompt_tokens_details": 0},
        {"prompt_tokens_details": []},
        {"completion_tokens": -1},
        {"prompt_tokens": 1.5},
        {"prompt_tokens": True},
        {"prompt_tokens": "1.5"},
        {"prompt_tokens": "-1"},
        {"prompt_tokens": ""},
        {"prompt_tokens": "²"},
        {"prompt_tokens": "1" * 16},
        {"prompt_tokens": 10**15},
        {"prompt_tokens": None, "input_tokens": None},
    ],
)
def test_what_is_no_count_is_no_usage(reported):
    assert usage_of(reported) is None


def test_a_string_of_digits_counts():
    assert usage_of({"prompt_tokens": "1024", "completion_tokens": 3}) == Usage(1024, 3, None)


def test_the_second_name_counts_where_the_first_has_no_count():
    assert usage_of({"prompt_tokens": None, "input_tokens": 5}) == Usage(5, None, None)


def test_a_bad_count_does_not_cost_the_good_ones():
    reported = {
        "prompt_tokens": "oops",
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": -1},
    }
    assert usage_of(reported) == Usage(None, 3, None)


def test_two_reports_are_merged_to_the_larger_counts():
    start, delta = Usage(100, 0, None), Usage(None, 20, 64)
    assert merge_usage(start, delta) == Usage(100, 20, 64)
    assert merge_usage(Usage(100, 20, 64), Usage(100, 25, 64)) == Usage(100, 25, 64)
    assert merge_usage(Usage(100, 20, 64), Usage(0, 0, 0)) == Usage(100, 20, 64)


def test_a_report_merged_with_none_stays():
    assert merge_usage(None, Usage(1, 2, 3)) == Usage(1, 2, 3)
    assert merge_usage(Usage(1, 2, 3), None) == Usage(1, 2, 3)
    assert merge_usage(None, None) is None


@pytest.mark.parametrize(
    "document",
    [
        b'{"id":"x","usage":{"prompt_tokens":7,"completion_tokens":3}}',
        b'{"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":3}}}',
        b'{"type":"response.completed","response":{"usage":{"input_tokens":7,"output_tokens":3}}}',
        b'{"message":"ok","response":5,"usage":{"prompt_tokens":7,"completion_tokens":3}}',
    ],
)
def test_usage_stands_at_the_top_in_a_message_or_in_a_response(document):
    assert usage_in_document(document) == Usage(7, 3, None)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[DONE]",
        b"[]",
        b"null",
        b'{"usage":',
        b'{"usage":null}',
        b'{"usage":"oops"}',
        b'{"choices":[{"usage":{"prompt_tokens":7}}]}',
        b'{"usage":{"prompt_tokens":' + b"9" * 5000 + b"}}",
        b'{"usage":' + b"[" * 100_000,
        b'{"usage":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"usage":{"prompt_tokens":"\xff"}}',
        b'{"message":{"usage":7},"x":1}',
        b'{"response":{"usage":null}}',
    ],
)
def test_a_document_without_valid_usage_has_none(document):
    assert usage_in_document(document) is None
