"""C16 (AX p2122): the session header was stripped, so affinity never worked. `x-session-id: s1`, twice."""

from epp.http.headers import request_headers
from tests.director.core import Pool

CONFIG = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: session-affinity-scorer
  parameters: {strategy: session_id}
"""
HEADERS = {"x-session-id": "s1"}


def picked(pool, now):
    exchange = pool.open({"model": "m", "prompt": "x"}, headers=HEADERS, now=now)
    target = pool.director.pick(exchange, now)
    pool.answer(exchange, now=now)
    return target.address


def test_the_second_request_of_a_session_goes_where_the_first_went():
    pool = Pool(n=4, config=CONFIG)

    assert {picked(pool, float(now)) for now in range(1, 13)} == {picked(pool, 13.0)}


def test_the_header_reaches_the_endpoint():
    sent = request_headers([(b"X-Session-Id", b"s1")], request_id=b"r", client=None)

    assert (b"X-Session-Id", b"s1") in sent
