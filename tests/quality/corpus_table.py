"""Writes into docs/corpus.md which files test each row, by the rows in the files' names.

    python -m tests.quality.corpus_table

A row that no file is named after keeps what it says. What stands behind a semicolon stays.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "corpus.md"
REGRESSIONS = ROOT / "tests" / "regressions"

_LINE = re.compile(r"^(\| ([A-L]\d\d) \|.*\| )([^|]+)( \|)$", re.MULTILINE)


def files_of(row: str) -> list[str]:
    """The tests that are named after a row; T1 is t01 in a name."""
    wanted = f"_{row[0].lower()}{int(row[1:]):02}_"
    return sorted(
        path.name for path in REGRESSIONS.glob("test_*.py") if wanted in path.name.replace(".", "_")
    )


def with_files(page: str) -> str:
    """The page with the files of every row that has some."""

    def line(match: re.Match[str]) -> str:
        start, row, here, end = match.groups()
        files = ", ".join(f"`{name}`" for name in files_of(row))
        _, semicolon, remark = here.partition(";")
        return f"{start}tested: {files}{semicolon}{remark}{end}" if files else match[0]

    return _LINE.sub(line, page)


if __name__ == "__main__":
    PAGE.write_text(with_files(PAGE.read_text()))
