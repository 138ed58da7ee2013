"""What belongs to a stored response goes to the endpoint that holds it."""

import pytest

from epp.director.stored import StoredResponses
from epp.director.types import EndReason, Failure, FailureKind
from epp.endpoints.types import EndpointMetrics
from epp.errors import NoEndpointsError, ResponseNotFoundError
from tests.director.core import Pool

DAY_S = 86_400.0


def store(pool, name, now=1.0):
    """A response `name`, made by whichever endpoint is picked; the endpoint."""
    exchange = pool.open({"model": "m", "input": "hi"}, path="/v1/responses", now=now)
    pool.director.pick(exchange, now)
    pool.director.on_response_head(exchange, 200, now)
    pool.director.on_stored_response(exchange, name, now)
    pool.director.on_end(exchange, EndReason.COMPLETE, now)
    return exchange.target.address


def ask(pool, path, body=b"", method="GET", now=2.0):
    exchange = pool.open(body, path=path, method=method, now=now)
    try:
        return pool.director.pick(exchange, now).address
    finally:
        pool.director.on_end(exchange, EndReason.COMPLETE, now)


@pytest.fixture
def pool():
    return Pool()


def test_retrieving_cancelling_and_continuing_go_to_the_endpoint_that_made_the_response(pool):
    made_by = {f"resp_{n}": store(pool, f"resp_{n}") for n in range(6)}

    assert len(set(made_by.values())) == 3
    for name, address in made_by.items():
        assert ask(pool, f"/v1/responses/{name}") == address
        assert ask(pool, f"/v1/responses/{name}/cancel", method="POST") == address
        body = {"model": "m", "input": "and?", "previous_response_id": name}
        assert ask(pool, "/v1/responses", body, "POST") == address


def test_an_unknown_response_is_asked_for_anywhere(pool):
    assert {ask(pool, "/v1/responses/resp_9") for _ in range(3)} == {f"10.0.0.{n}:8000" for n in (1, 2, 3)}


def test_a_response_of_an_endpoint_that_is_gone_is_not_found(pool):
    address = store(pool, "resp_1")
    pool.core.upkeep.sync_endpoints([spec for spec in pool.specs if spec.address != address], 1.5)

    with pytest.raises(ResponseNotFoundError) as caught:
        ask(pool, "/v1/responses/resp_1")

    assert caught.value.message == f"response 'resp_1' is lost: {address}, which held it, is gone"
    assert caught.value.status == 404


def test_a_response_of_a_process_that_has_restarted_is_not_found(pool):
    address = store(pool, "resp_1")
    pool.core.table.update_metrics(address, EndpointMetrics(process_start=100.0), 1.2)
    pool.core.table.update_metrics(address, EndpointMetrics(process_start=200.0), 1.5)

    with pytest.raises(ResponseNotFoundError, match="has restarted"):
        ask(pool, "/v1/responses/resp_1")


def test_a_cache_reset_loses_no_response(pool):
    address = store(pool, "resp_1")
    pool.core.table.end_incarnation(address)

    assert ask(pool, "/v1/responses/resp_1") == address


def test_an_ejected_endpoint_is_still_asked_for_its_responses_and_a_draining_one_is_not_ready(pool):
    address = store(pool, "resp_1")
    pool.core.state.health.on_engine_down(pool.core.table.endpoint(address), 1.5)
    assert ask(pool, "/v1/responses/resp_1") == address

    pool.core.table.mark_draining(address)
    with pytest.raises(NoEndpointsError, match="which holds the response, is not ready"):
        ask(pool, "/v1/responses/resp_1")


def test_no_other_endpoint_is_tried_for_a_stored_response(pool):
    store(pool, "resp_1")
    exchange = pool.open(b"", path="/v1/responses/resp_1", method="GET")
    pool.director.pick(exchange, 1.0)

    failure = Failure(FailureKind.CONNECT, "refused", written=False)
    assert pool.director.next_after_failure(exchange, failure, 1.0) is None


def test_a_response_named_without_an_endpoint_is_not_noted(pool):
    exchange = pool.open({"model": "m", "input": "hi"}, path="/v1/responses")
    pool.director.on_stored_response(exchange, "resp_1", 1.0)

    assert {ask(pool, "/v1/responses/resp_1") for _ in range(3)} == {f"10.0.0.{n}:8000" for n in (1, 2, 3)}


def test_a_response_is_forgotten_a_day_after_it_was_last_used(pool):
    stored, view = StoredResponses(), pool.core.table.pool
    stored.note("resp_1", pool.endpoint(1), 0.0)

    assert stored.holder("resp_1", view, DAY_S) is pool.endpoint(1)
    assert stored.holder("resp_1", view, 2 * DAY_S) is pool.endpoint(1)
    assert stored.holder("resp_1", view, 3 * DAY_S + 1.0) is None


def test_what_is_over_is_removed_when_another_response_is_noted(pool):
    stored = StoredResponses()
    stored.note("resp_1", pool.endpoint(1), 0.0)
    stored.note("resp_2", pool.endpoint(1), 10.0)
    stored.note("resp_3", pool.endpoint(1), DAY_S + 5.0)

    assert len(stored) == 2


def test_beyond_the_limit_the_response_used_longest_ago_is_forgotten(pool):
    stored, view = StoredResponses(max_responses=2), pool.core.table.pool
    stored.note("resp_1", pool.endpoint(1), 0.0)
    stored.note("resp_2", pool.endpoint(2), 1.0)
    stored.holder("resp_1", view, 2.0)
    stored.note("resp_3", pool.endpoint(3), 3.0)

    assert stored.holder("resp_2", view, 4.0) is None
    assert stored.holder("resp_1", view, 4.0) is pool.endpoint(1)


def test_an_id_that_comes_again_belongs_to_the_later_endpoint(pool):
    stored = StoredResponses()
    stored.note("resp_1", pool.endpoint(1), 0.0)
    stored.note("resp_1", pool.endpoint(2), 1.0)

    assert stored.holder("resp_1", pool.core.table.pool, 2.0) is pool.endpoint(2)


def test_an_id_of_more_than_256_characters_is_not_remembered(pool):
    stored = StoredResponses()
    stored.note("r" * 256, pool.endpoint(1), 1.0)
    stored.note("r" * 257, pool.endpoint(1), 1.0)

    assert len(stored) == 1
