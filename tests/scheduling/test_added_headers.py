"""What plugins may add to an answer."""

import pytest

from epp.scheduling.added_headers import fit_headers, is_reserved


def fit(*headers):
    dropped = []
    return fit_headers(headers, dropped.append), dropped


def test_fit_headers_pass_in_their_order():
    assert fit(("x-b", "1"), ("x-a", "two words")) == ((("x-b", "1"), ("x-a", "two words")), [])


@pytest.mark.parametrize("name", ["Bad Name:", "X-Upper", "", "x\r\ny", "x-ü", "x:y"])
def test_a_name_that_is_none_in_lower_case_is_dropped_and_told(name):
    assert fit((name, "1"), ("x-a", "1")) == ((("x-a", "1"),), [name])


@pytest.mark.parametrize("value", ["", "a\r\nb: c", "ü", " a", "a ", "a\x00"])
def test_a_value_that_is_no_visible_ascii_is_dropped(value):
    assert fit(("x-a", value)) == ((), ["x-a"])


@pytest.mark.parametrize(
    "name", ["content-length", "transfer-encoding", "connection", "date", "x-request-id", "x-epp-endpoint"]
)
def test_what_frames_the_answer_or_is_the_routers_is_dropped(name):
    assert is_reserved(name)
    assert fit((name, "1")) == ((), [name])
