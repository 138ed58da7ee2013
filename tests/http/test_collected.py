"""Bodies collected piece by piece."""

import tracemalloc

import pytest

from epp.http.collected import Collected


@pytest.mark.parametrize(
    "pieces",
    [[], [b""], [b"a"], [b"a", b"", b"b"], [b"x" * 600_000] * 3, [b"x" * (1 << 20), b"y"], [b"ab"] * 3000],
    ids=["none", "empty", "one", "three", "large", "just large", "many"],
)
def test_it_is_what_came_and_is_taken_once(pieces):
    collected = Collected()
    for piece in pieces:
        collected.add(piece)

    assert collected.size == len(b"".join(pieces))
    assert collected.take() == b"".join(pieces)
    assert collected.take() == b""


def test_a_single_piece_is_not_copied():
    collected, piece = Collected(), b"a" * 1000
    collected.add(piece)

    assert collected.take() is piece


def test_a_body_in_tiny_pieces_weighs_little_more_than_its_bytes():
    collected = Collected()
    tracemalloc.start()
    try:
        for number in range(300_000):
            collected.add(b"%03d" % (number % 1000))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert collected.size == 900_000
    assert held < 2 * collected.size
