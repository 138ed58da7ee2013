"""Content codings of a request body."""

import gzip
import random
import zlib

import pytest

from epp.errors import BadRequestError, PayloadTooLargeError, UnsupportedEncodingError
from epp.request import decode_body, decode_steps

PLAIN = b'{"model":"m","prompt":"' + b"abc" * 100 + b'"}'
LIMIT = 1000


def raw_deflate(data):
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


@pytest.mark.parametrize("coding", [None, "", "identity", "Identity", " identity , "])
def test_an_unencoded_body_comes_back_as_it_is(coding):
    assert decode_body(coding, PLAIN, LIMIT) is PLAIN


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", " gzip ", "identity, gzip"])
def test_gzip_is_undone(coding):
    assert decode_body(coding, gzip.compress(PLAIN), LIMIT) == PLAIN


def test_deflate_is_undone_with_and_without_its_zlib_header():
    assert decode_body("deflate", zlib.compress(PLAIN), LIMIT) == PLAIN
    assert decode_body("deflate", raw_deflate(PLAIN), LIMIT) == PLAIN


def test_codings_are_undone_from_the_last_one_applied():
    assert decode_body("gzip, gzip", gzip.compress(gzip.compress(PLAIN)), LIMIT) == PLAIN
    assert decode_body("deflate, gzip", gzip.compress(zlib.compress(PLAIN)), LIMIT) == PLAIN


def test_the_members_of_a_gzip_body_are_joined():
    assert decode_body("gzip", gzip.compress(b'{"a":') + gzip.compress(b"1}"), LIMIT) == b'{"a":1}'


@pytest.mark.parametrize("coding, compress", [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_large_body_is_undone_a_mebibyte_at_a_time(coding, compress):
    plain = random.Random(1).randbytes(3 << 20) + bytes(9 << 20)  # the worst and the best to compress
    steps = decode_steps(coding, compress(plain), 16 << 20)

    assert len(list(steps)) == 11
    assert decode_body(coding, compress(plain), 16 << 20) == plain


def test_more_than_sixteen_gzip_members_are_refused():
    assert decode_body("gzip", gzip.compress(b"x") * 16, LIMIT) == b"x" * 16
    with pytest.raises(BadRequestError, match="16 members"):
        decode_body("gzip", gzip.compress(b"x") * 17, LIMIT)


def test_an_empty_body_may_be_compressed():
    assert decode_body("gzip", gzip.compress(b""), LIMIT) == b""
    assert decode_body("deflate", zlib.compress(b""), LIMIT) == b""


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, br", "nonsense"])
def test_other_codings_are_not_supported(coding):
    with pytest.raises(UnsupportedEncodingError):
        decode_body(coding, PLAIN, LIMIT)


def test_more_than_two_codings_are_not_supported():
    with pytest.raises(UnsupportedEncodingError, match="2 content codings"):
        decode_body("gzip, gzip, gzip", PLAIN, LIMIT)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("body", [b"", b"\x1f", b"not compressed at all", PLAIN])
def test_a_body_that_does_not_follow_its_coding_is_a_bad_request(coding, body):
    with pytest.raises(BadRequestError, match="content-encoding"):
        decode_body(coding, body, LIMIT)


@pytest.mark.parametrize(
    "coding, whole",
    [("gzip", gzip.compress(PLAIN, mtime=0)), ("deflate", zlib.compress(PLAIN))],
    ids=["gzip", "deflate"],
)
def test_a_body_cut_at_any_byte_is_a_bad_request(coding, whole):
    for end in range(len(whole)):
        with pytest.raises(BadRequestError):
            decode_body(coding, whole[:end], LIMIT)


def test_bytes_after_the_compressed_data_are_a_bad_request():
    with pytest.raises(BadRequestError):
        decode_body("gzip", gzip.compress(PLAIN) + b"trailing", LIMIT)
    with pytest.raises(BadRequestError):
        decode_body("deflate", zlib.compress(PLAIN) + b"trailing", LIMIT)


def test_a_changed_byte_in_a_gzip_body_is_a_bad_request():
    body = bytearray(gzip.compress(PLAIN))
    body[-6] ^= 1  # in the checksum
    with pytest.raises(BadRequestError):
        decode_body("gzip", bytes(body), LIMIT)


def test_a_body_of_exactly_the_limit_passes_and_one_byte_more_does_not():
    for coding, compress in ((None, bytes), ("gzip", gzip.compress), ("deflate", zlib.compress)):
        assert decode_body(coding, compress(b"x" * 1000), 1000) == b"x" * 1000
        with pytest.raises(PayloadTooLargeError, match="1000 bytes"):
            decode_body(coding, compress(b"x" * 1001), 1000)


def test_all_members_together_stay_under_the_limit():
    assert len(decode_body("gzip", gzip.compress(b"x" * 500) * 2, 1000)) == 1000
    with pytest.raises(PayloadTooLargeError):
        decode_body("gzip", gzip.compress(b"x" * 500) + gzip.compress(b"x" * 501), 1000)


def test_an_inner_layer_over_the_limit_is_refused_though_its_content_is_small():
    inner = gzip.compress(PLAIN) + gzip.compress(b"") * 15
    assert len(inner) == 350
    with pytest.raises(PayloadTooLargeError):
        decode_body("gzip, gzip", gzip.compress(inner), 349)


def test_a_bomb_costs_no_more_memory_than_the_limit():
    import tracemalloc

    bomb = gzip.compress(b"\0" * 20_000_000)
    twice = gzip.compress(bomb)
    for coding, body in (
        ("gzip", bomb),
        ("gzip, gzip", twice),
        ("deflate", zlib.compress(b"\0" * 20_000_000)),
    ):
        tracemalloc.start()
        with pytest.raises(PayloadTooLargeError):
            decode_body(coding, body, 100_000)
        assert tracemalloc.get_traced_memory()[1] < 500_000
        tracemalloc.stop()
