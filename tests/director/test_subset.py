"""The endpoints that a gateway allows for one request."""

import pytest

from epp.director.pick import pick_list
from epp.director.subset import subset_of
from epp.errors import NoEndpointsError
from tests.director.core import TIERED, Pool


def asked(pool, *named):
    exchange = pool.open({"model": "m", "prompt": "Hello"})
    exchange.subset = subset_of(named)
    return exchange


@pytest.mark.parametrize("named", ["10.0.0.2:8000", "10.0.0.2"])
def test_an_address_or_a_host_allows(named):
    pool = Pool(n=3)

    assert pool.director.pick(asked(pool, named), 1.0).address == "10.0.0.2:8000"


def test_a_receipt_says_who_was_not_allowed():
    pool = Pool(n=3)
    exchange = asked(pool, "10.0.0.2")
    pool.director.pick(exchange, 1.0)

    assert {(e.address, e.reason) for e in exchange.ruled_out} == {
        ("10.0.0.1:8000", "not allowed by the gateway"),
        ("10.0.0.3:8000", "not allowed by the gateway"),
    }


def test_brackets_around_a_host_do_not_count():
    assert subset_of(("[fd00::1]", "[fd00::1]:8000", "fd00::2")) == {"fd00::1", "[fd00::1]:8000", "fd00::2"}


def test_nobody_allowed_is_no_endpoint():
    pool = Pool(n=3)

    with pytest.raises(NoEndpointsError, match="allows"):
        pool.director.pick(asked(pool), 1.0)


def test_the_holder_of_a_stored_response_must_be_allowed_too():
    pool = Pool(n=2)
    exchange = pool.open({"model": "m", "input": "Hello"}, path="/v1/responses")
    held_by = pool.director.pick(exchange, 1.0).address
    pool.director.on_stored_response(exchange, "resp_1", 1.0)
    follow_up = pool.open(b"", path="/v1/responses/resp_1", method="GET")
    follow_up.subset = subset_of(("10.9.9.9",))

    with pytest.raises(NoEndpointsError):
        pool.director.pick(follow_up, 1.0)
    follow_up.subset = None
    assert pool.director.pick(follow_up, 1.0).address == held_by


def test_a_list_is_as_long_as_the_pickers_most():
    pool = Pool(n=3)
    config = (
        TIERED.replace(
            "schedulingProfiles:",
            "- {type: max-score-picker, name: two, parameters: {maxNumOfEndpoints: 2}}\nschedulingProfiles:",
        )
        + "  - {pluginRef: two}\n"
    )
    of_two = Pool(n=3, config=config)

    one = pick_list(pool.director, pool.open({"model": "m", "prompt": "x"}), 1.0)
    two = pick_list(of_two.director, of_two.open({"model": "m", "prompt": "x"}), 1.0)

    assert (len(one), len(set(two))) == (1, 2)
    assert of_two.ledger.total() == 1
