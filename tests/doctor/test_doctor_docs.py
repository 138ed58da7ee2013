"""docs/doctor.md and the codes say the same, and every code is found by some test."""

import pathlib
import re

from epp.cli.doctor import EPILOG
from epp.doctor import CODES

HERE = pathlib.Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "doctor.md").read_text()
ROW = re.compile(r"^\| `([a-z-]+)` \| (error|warning|info) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_every_code_has_one_row_with_its_severity_and_no_other_has():
    rows = ROW.findall(PAGE)

    assert sorted((code, severity) for code, severity, *_ in rows) == sorted(
        (name, code.severity.value) for name, code in CODES.items()
    )


def test_every_row_gives_a_meaning_and_a_remedy():
    assert [
        code for code, _, meaning, remedy in ROW.findall(PAGE) if len(meaning) < 15 or len(remedy) < 5
    ] == []


def test_every_code_is_expected_by_a_test():
    tests = "".join(path.read_text() for path in HERE.glob("test_*.py"))

    assert [code for code in CODES if f'"{code}"' not in tests] == []


def test_the_exit_codes_of_the_help_stand_on_the_page():
    assert "exit codes: 0 nothing found, or only infos; 1 warnings; 2 the flags" in EPILOG
    assert re.findall(r"^\| ([0-9]) \|", PAGE, re.MULTILINE) == ["0", "1", "2", "3"]
