"""docs/corpus.md and tests/regressions agree: every row has a line, every line is true, every test has a row."""

import pathlib
import re

import pytest

from tests.quality.corpus_table import PAGE as PATH
from tests.quality.corpus_table import files_of, with_files

ROOT = pathlib.Path(__file__).parents[2]
PAGE = PATH.read_text()
FILES = {path.name for path in (ROOT / "tests" / "regressions").glob("test_*.py")}
MOST_NOT_OURS = 25

_LINES = re.findall(r"^\| ([A-L]\d\d|T\d+) \|.*\| ([^|]+) \|$", PAGE, re.MULTILINE)
LINES = dict(_LINES)
_RANGES = re.search(r"The rows are (.*?): (\d+)\. The later parts are (.*?)\.\n", PAGE, re.DOTALL)


def ids() -> list[str]:
    """Every row that the page says there is."""
    found = re.findall(r"([A-L])01 to \1(\d\d)", _RANGES[1])
    return [f"{group}{number:02}" for group, last in found for number in range(1, int(last) + 1)]


def later_parts() -> set[str]:
    return set(re.split(r",\s+|\s+and\s+", _RANGES[3]))


def files_in(text: str) -> set[str]:
    return set(re.findall(r"`(test_\w+\.py)`", text))


def test_there_are_171_rows_and_each_has_one_line():
    assert len(ids()) == int(_RANGES[2]) == 171
    assert [row for row, _ in _LINES if row[0] != "T"] == ids()


def test_each_of_the_fifteen_behaviours_has_one_line():
    assert [row for row, _ in _LINES if row[0] == "T"] == [f"T{number}" for number in range(1, 16)]


@pytest.mark.parametrize("row", sorted(LINES))
def test_a_line_says_what_became_of_its_row(row):
    here = LINES[row]
    kind, _, rest = here.partition(":")

    if kind == "later":
        assert rest.strip() in later_parts()
        assert files_of(row) == []
    elif kind == "not ours":
        assert rest.strip()
    else:
        assert kind.startswith("tested")
        assert files_in(here)
        assert files_in(here) - FILES == set()
        # A behaviour may be tested by the file of a row that says the same.
        assert row[0] == "T" or set(files_of(row)) == files_in(here)


def test_the_files_are_those_that_are_named_after_the_rows():
    """`python -m tests.quality.corpus_table` writes them."""
    assert with_files(PAGE) == PAGE


def test_few_rows_are_not_ours():
    assert sum(here.startswith("not ours") for here in LINES.values()) <= MOST_NOT_OURS


def test_every_test_stands_on_the_page():
    assert FILES - files_in(PAGE) == set()


def test_nothing_in_the_regressions_is_skipped_or_expected_to_fail():
    marks = re.compile(r"pytest\.(mark\.)?(skip|skipif|xfail|importorskip)\b")
    found = [
        path.name for path in (ROOT / "tests" / "regressions").glob("*.py") if marks.search(path.read_text())
    ]

    assert found == []
