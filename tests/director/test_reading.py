"""Requests whose bodies nobody reads."""

import gzip

import pytest

from epp.director.reading import is_large, read_steps
from epp.director.types import Failure, FailureKind, RequestHead
from epp.endpoints.types import ModelInfo
from epp.errors import ModelNotFoundError
from epp.request import LARGE_BYTES
from tests.director.core import Pool

HEAD = RequestHead("req-1", "POST", "/v1/audio/transcriptions")


def unread(pool, model=None, head=HEAD):
    exchange = pool.director.open(head, 1.0)
    assert list(pool.director.prepare(exchange, None, 1.0, model=model)) == []
    return exchange


@pytest.fixture
def pool():
    """Two endpoints with a model each."""
    pool = Pool(n=2)
    pool.core.table.set_models(pool.specs[0].address, (ModelInfo("whisper"),), 0.0)
    pool.core.table.set_models(pool.specs[1].address, (ModelInfo("llama"),), 0.0)
    return pool


def test_a_model_that_is_known_leads_to_its_endpoints(pool):
    assert {pool.director.pick(unread(pool, "whisper"), 1.0).address for _ in range(4)} == {"10.0.0.1:8000"}


def test_without_a_model_every_endpoint_may_get_it(pool):
    assert len({pool.director.pick(unread(pool), 1.0).address for _ in range(4)}) == 2


def test_an_unknown_model_is_not_found(pool):
    with pytest.raises(ModelNotFoundError):
        unread(pool, "nope")


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_what_was_written_of_an_unread_body_is_never_sent_again(pool, method):
    def follows(written):
        exchange = unread(pool, head=RequestHead("req-1", method, "/v1/files"))
        pool.director.pick(exchange, 1.0)
        return pool.director.next_after_failure(exchange, Failure(FailureKind.BROKEN, "", written), 1.0)

    assert follows(written=True) is None
    assert follows(written=False) is not None


def turns(path, body, **headers):
    """How often others have their turn while a body is read, before it is hashed."""
    return len(list(read_steps(RequestHead("r", "POST", path, headers), body, 1 << 26)))


def test_a_large_body_is_decoded_and_parsed_in_steps():
    plain = b'{"model":"m","prompt":"%b"}' % (b"a" * LARGE_BYTES)

    # Received; its elements counted (two steps); decoded; written (two).
    assert turns("/v1/completions", plain) == 1 + 2 + 1 + 2
    # Inflated in between, in one step and a bit.
    assert turns("/v1/completions", gzip.compress(plain), **{"content-encoding": "gzip"}) == 1 + 2 + 2 + 1 + 2
    assert turns("/v1/files", plain) == 0


def test_large_is_more_than_a_mebibyte_or_compressed():
    head, coded = (
        RequestHead("r", "POST", "/v1/x"),
        RequestHead("r", "POST", "/v1/x", {"content-encoding": "gzip"}),
    )

    assert [
        is_large(head, bytes(LARGE_BYTES)),
        is_large(head, bytes(LARGE_BYTES + 1)),
        is_large(coded, b""),
    ] == [
        False,
        True,
        True,
    ]


def test_a_large_body_is_prepared_like_a_small_one(pool):
    text = "a" * LARGE_BYTES
    large = pool.open({"model": "llama", "prompt": text})
    small = pool.open({"model": "llama", "prompt": text[:500_000]})

    assert large.chains.by_block_bytes[64][0][:100] == small.chains.by_block_bytes[64][0][:100]
    assert large.body_bytes > LARGE_BYTES
