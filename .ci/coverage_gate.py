"""Fail unless the pure rooms are covered wholly, in lines and branches, and the rest to at least 95 %."""

import io
import json
import pathlib
import sys
import tempfile

import coverage

PURE = (
    "request", "response", "prefix", "endpoints", "scheduling", "director", "engine", "flow", "security",
    "config",
)  # fmt: skip
PURE_FILES = ("epp/errors.py", "epp/clock.py", "epp/compose.py")
ELSEWHERE_MINIMUM = 95.0


def room(path: str) -> str:
    """The room a file belongs to: its folder under epp, or "pure"/"other" for top-level modules."""
    parts = pathlib.PurePath(path).parts
    if path in PURE_FILES or (len(parts) > 2 and parts[1] in PURE):
        return "pure"
    return "elsewhere"


def load() -> dict[str, dict[str, float]]:
    """Combined coverage of all test processes, by file."""
    data = coverage.Coverage()
    data.combine(strict=False) if list(pathlib.Path().glob(".coverage.*")) else None
    data.load()
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        data.json_report(outfile=report.name, ignore_errors=True)
        return {path: entry["summary"] for path, entry in json.load(report)["files"].items()}


def share(summaries: list[dict[str, float]]) -> float:
    """Covered lines and branches of all lines and branches, in percent."""
    covered = sum(s["covered_lines"] + s["covered_branches"] for s in summaries)
    total = sum(s["num_statements"] + s["num_branches"] for s in summaries)
    return 100.0 * covered / total if total else 100.0


def main() -> int:
    """Print both figures and every file that misses its gate."""
    files = load()
    out = io.StringIO()
    failed = False
    for path, summary in sorted(files.items()):
        if room(path) == "pure" and share([summary]) < 100.0:
            failed = True
            out.write(f"  {path}: {share([summary]):.1f} % (pure: 100 % needed)\n")
    rest = share([s for path, s in files.items() if room(path) != "pure"])
    pure = share([s for path, s in files.items() if room(path) == "pure"])
    if rest < ELSEWHERE_MINIMUM:
        failed = True
        worst = sorted((share([s]), path) for path, s in files.items() if room(path) != "pure")[:8]
        out.writelines(f"  {path}: {percent:.1f} %\n" for percent, path in worst)
    needed = f"{ELSEWHERE_MINIMUM:g}"
    print(f"coverage: pure rooms {pure:.2f} % (100 needed), elsewhere {rest:.2f} % ({needed} needed)")
    print(out.getvalue(), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
