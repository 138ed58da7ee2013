"""The results as Markdown."""

import pytest

from bench.suite import results
from bench.suite.page import BEGIN, END, PageError, with_block
from bench.suite.table import markdown, number, remarks
from tests.bench.results import facts, samples


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("not measured", "not measured"),
        (0.123456, "0.123"),
        (12.345, "12.3"),
        (1234.5, "1,234"),
        (0, "0"),
    ],
)
def test_numbers_are_shown_with_three_digits(value, shown):
    assert number(value) == shown


def test_a_bar_has_its_ratios():
    lines = markdown(results.assemble(facts(), samples())).splitlines()

    assert lines[0] == "2 of 2 bars are met."
    assert lines[4] == (
        "| 1 | CPU a request, 1 KB, 32 connections, µs | 90 | ≤ 100 | yes | 20 | 4.50 | 160 | 0.56 |"
    )


def test_it_says_when_parts_were_measured_at_other_times():
    other = {**facts(), "settings": {"runs": 2, "measured in parts": ["one day", "another"]}}
    assert "- Measured in parts: one day, another." in markdown(results.assemble(other, samples()))


def test_parts_and_notes_stand_below_the_bars():
    bars = [
        {"name": "1"},
        {"name": "8a", "parts": {"fast": 1999.6, "idle": None}, "note": "pages a second"},
        {"name": "9", "note": "published elsewhere"},
    ]
    assert remarks(bars) == ["- 8a: fast 2,000, idle -; pages a second.", "- 9: published elsewhere.", ""]
    assert remarks([{"name": "1"}]) == []


def test_a_bar_that_is_missed_stands_out():
    found = samples()
    found.table["1kb"]["epp"]["cpu_us"] = [500.0]
    assert "| **no** |" in markdown(results.assemble(facts(), found))


def test_every_stack_has_a_row_with_epp_first():
    lines = markdown(results.assemble(facts(), samples())).splitlines()
    names = [line.split(" | ")[0].removeprefix("| ") for line in lines if " | - | - |" in line]
    assert names == ["epp", "nginx", "a cache_aware", "b cache_aware", "b round_robin"]


def test_it_says_on_what_it_was_measured_and_what_was_left_out():
    page = markdown(results.assemble(facts(), samples()))
    assert "CPU, 2 cores, 24 GiB, Debian GNU/Linux 12, Linux 6.18" in page
    assert "epp on CPython 3.13.0; nginx 1.22.1; a 1.0, b 2.0" in page
    assert "Left out: c: no wheel" in page
    assert "Runs of epp differed by at most ± 1% in CPU (1kb)" in page


def test_the_block_of_a_page_is_replaced_and_nothing_else():
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_block(page, "new\n") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert with_block(with_block(page, "new"), "new") == with_block(page, "new")


@pytest.mark.parametrize("page", ["", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_page_without_its_markers_is_refused(page):
    with pytest.raises(PageError, match="each once"):
        with_block(page, "new")
