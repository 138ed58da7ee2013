"""What stands in the repository itself: files, commands, and no trace of a workplace."""

import pathlib
import re
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).parents[2]


def tracked() -> list[str]:
    """Files under version control, or all files where this is not a checkout."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split() or [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]


def test_the_all_extra_holds_every_other_extra_but_dev():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"]) - {"all", "dev"}
    (all_extra,) = project["optional-dependencies"]["all"]

    assert set(re.findall(r"[\w-]+", all_extra.partition("[")[2])) == extras


def test_constraints_pin_exact_versions_and_name_no_host():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]

    assert pins
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`?make ([a-z][a-z-]+)`?", (ROOT / "README.md").read_text()))

    assert named
    assert named - targets == set()


def test_no_unfinished_work_is_marked_in_the_product():
    marks = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)))
    found = [
        p
        for p in tracked()
        if p.startswith("epp/") and p.endswith(".py") and marks.search((ROOT / p).read_text(errors="ignore"))
    ]

    assert found == []
