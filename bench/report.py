"""Write the figures of bench/results/latest.json into docs/performance.md, between its two markers.

    python bench/report.py [--check]

--check writes nothing and fails if the page is not up to date.
"""

import argparse
import sys
from pathlib import Path

from suite import results, table
from suite.page import PageError, with_block

ROOT = Path(__file__).resolve().parents[1]
LATEST = ROOT / "bench/results/latest.json"
PAGE = ROOT / "docs/performance.md"


def figures() -> str:
    """The block of the page. Raises ResultsError."""
    found = results.load(LATEST)
    if found is None:
        raise results.ResultsError("there is no bench/results/latest.json: make bench")
    return table.markdown(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    try:
        before = PAGE.read_text()
        after = with_block(before, figures())
    except (results.ResultsError, PageError) as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    if check:
        return int(after != before)
    PAGE.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
