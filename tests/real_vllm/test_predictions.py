"""Predicted hit tokens agree with what the engines count, in both tiers."""

import random

import pytest

from tests.real_vllm.texts import LANGUAGES, token_ids

pytestmark = [pytest.mark.realvllm, pytest.mark.timeout(360)]

_TOLERANCE = 0.10
_WARM_UP = 10
_DOCUMENTS = 14  # of 2,400 tokens: 33,600, where both GPU tiers hold 16,384 and both CPU tiers 131,072
_DOCUMENT_TOKENS = 2400
_REQUESTS = 70
_BYTES_PER_TOKEN = {"english": 2.6, "code": 2.8, "vietnamese": 1.3}  # what these texts come to, roughly


def text(language, number, tokens=_DOCUMENT_TOKENS):
    """About so many tokens."""
    return LANGUAGES[language](number, int(tokens * _BYTES_PER_TOKEN[language]))


def visits(seed):
    """Numbers of documents: often the last one again, else any."""
    dice = random.Random(seed)
    number = 0
    for _ in range(_REQUESTS):
        if dice.random() < 0.7:
            number = dice.randrange(_DOCUMENTS)
        yield number


def check(hits):
    """Both tiers served a good part, and both predictions are close."""
    assert min(hits["gpu"].counted, hits["cpu"].counted) >= 10_000
    assert abs(hits["gpu"].off) <= _TOLERANCE
    assert abs(hits["cpu"].off) <= _TOLERANCE


def converse(router, agreement, title, languages):
    """Warm up, then ask about documents, their languages in turn."""
    for number in range(_WARM_UP):
        router.chat(text(languages[number % len(languages)], 1000 + number), "What is this about?")
    agreement.begin(sent=_WARM_UP)
    documents = [text(languages[n % len(languages)], n) for n in range(_DOCUMENTS)]
    for turn, number in enumerate(visits(title)):
        router.chat(documents[number], text(languages[number % len(languages)], 2000 + turn, tokens=60))
    return agreement.measure(title, sent=_WARM_UP + _REQUESTS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_predictions_are_within_a_tenth_after_ten_requests_of_a_language(router, agreement, language):
    check(converse(router, agreement, language, [language]))


def test_predictions_are_within_a_tenth_where_languages_are_mixed(router, agreement):
    check(converse(router, agreement, "languages mixed", list(LANGUAGES)))


def test_predictions_for_token_ids_are_within_a_tenth_from_the_first_request(router, agreement):
    documents = [token_ids(number, _DOCUMENT_TOKENS) for number in range(_DOCUMENTS)]
    for turn, number in enumerate(visits("token ids")):
        router.complete(documents[number] + token_ids(2000 + turn, 60))

    check(agreement.measure("token ids", sent=_REQUESTS))
