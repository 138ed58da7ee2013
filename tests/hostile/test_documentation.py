"""docs/security.md says what each hostile message gets, and which test shows it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (
    (ROOT / "docs" / "security.md").read_text("utf-8").partition("## Hostile HTTP")[2].partition("\n## ")[0]
)
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith("| from ")]


def test_every_row_names_a_test():
    assert len(ROWS) >= 20
    assert [row for row in ROWS if "::test_" not in row] == []


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+\.py::test_\w+)`", TABLE))))
def test_every_test_that_is_named_exists(name):
    file, _, function = name.partition("::")
    places = (ROOT / "tests" / room / file for room in ("hostile", "proxy"))
    assert any(place.exists() and f"def {function}(" in place.read_text("utf-8") for place in places)
