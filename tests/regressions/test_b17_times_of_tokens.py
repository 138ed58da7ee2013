"""B17 (AX p2481, LR p2167): time to first token was that of the last, and non-streams had a time between tokens."""

from epp.director.types import EndReason
from epp.response.types import Usage
from tests.director.core import Pool
from tests.observability.builders import World


def test_the_first_byte_is_the_first_event_and_not_the_last():
    pool = Pool(n=1)
    exchange, _ = pool.send("a", 1.0)
    pool.director.on_response_head(exchange, 200, 1.05)
    for now in (1.1, 1.2, 1.3):
        pool.director.on_first_byte(exchange, now)
    pool.director.on_end(exchange, EndReason.COMPLETE, 1.3, usage=Usage(1, 3))
    [record] = pool.records

    assert round(record.first_byte_at - record.arrived, 6) == 0.1
    assert round(record.ended_at - record.arrived, 6) == 0.3


def test_only_a_stream_has_a_time_between_tokens():
    world = World()
    world.observe(world.record(stream=False, first_byte_at=1000.3, ended_at=1000.3, usage=Usage(1, 3)))
    assert sum(world.samples("llm_d_epp_request_streaming_tpot_seconds_count").values()) == 0

    world.observe(world.record(stream=True, first_byte_at=1000.1, ended_at=1000.3, usage=Usage(1, 3)))
    assert list(world.samples("llm_d_epp_request_streaming_tpot_seconds_count").values()) == [1]
