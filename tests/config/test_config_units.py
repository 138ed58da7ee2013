"""Durations and sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.config.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("200ms", 0.2), ("5s", 5.0), ("2m", 120.0), ("1h", 3600.0), ("1m30s", 90.0), ("1.5s", 1.5),
        ("0", 0.0), ("0s", 0.0), ("7", 7.0), ("0.25", 0.25),
    ],
)  # fmt: skip
def test_a_duration_is_read_in_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "x", "5 s", "-5s", "5d", "5S", "s", "1e3", "5s ", "1" * 33, "1" * 32 + "s", "\u0665s"]
)
def test_what_is_no_duration_is_refused_with_examples(text):
    with pytest.raises(
        ValueError, match=r"^must be a duration such as 200ms, 5s, 2m or a plain number of seconds$"
    ):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("512", 512), ("512B", 512), ("64KiB", 65_536), ("64Ki", 65_536), ("32MiB", 33_554_432),
        ("1GiB", 1_073_741_824), ("1Gi", 1_073_741_824), ("2k", 2_000), ("3kB", 3_000), ("3MB", 3_000_000), ("1G", 10**9), ("1.5KiB", 1536),
        ("1 MiB", 1_048_576),
    ],
)  # fmt: skip
def test_a_size_is_read_in_bytes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1K", "1mb", "1.5", "0.3KiB", "MiB", "1TiB", "1" * 33])
def test_what_is_no_size_is_refused_with_examples(text):
    with pytest.raises(
        ValueError, match=r"^must be a size such as 64KiB, 32MiB, 1GiB or a plain number of bytes$"
    ):
        parse_size(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (0.2, "200ms"), (1.0, "1s"), (90.0, "90s"), (1.5, "1.5s"), (0.0005, "0.5ms")],
)
def test_a_duration_is_shown_short(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (1, "1B"), (1000, "1000B"), (1024, "1KiB"), (64 << 20, "64MiB"), (1 << 30, "1GiB")],
)
def test_a_size_is_shown_in_the_largest_unit_that_divides_it(size, text):
    assert format_size(size) == text


@given(st.integers(min_value=0, max_value=1 << 40))
def test_a_size_that_is_shown_reads_back_the_same(size):
    assert parse_size(format_size(size)) == size


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_of_whole_milliseconds_that_is_shown_reads_back_the_same(milliseconds):
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000
