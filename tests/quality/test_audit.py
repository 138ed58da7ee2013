"""The audit of pins: what is known fails, what cannot be known is said and fails nothing."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
audit = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(audit)

CLEAN = {
    "dependencies": [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "unknown"}]
}
BAD = {"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1"}, {"id": "CVE-2"}]}]}


def auditor(tmp_path, *, report=None, stderr="", code=0, sleep=0.0):
    """A command that behaves like the auditor."""
    script = tmp_path / "auditor.py"
    script.write_text(
        "import sys, time\n"
        f"time.sleep({sleep})\n"
        "[output] = [a.partition('=')[2] for a in sys.argv if a.startswith('--output=')]\n"
        f"report = {json.dumps(report) if report else ''!r}\n"
        "report and open(output, 'w').write(report)\n"
        f"sys.stderr.write({stderr!r})\n"
        f"sys.exit({code})\n"
    )
    return [sys.executable, str(script)]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"report": CLEAN}, 0, "audited: no pinned version has a known vulnerability\n"),
        ({"report": BAD, "code": 1}, 1, "known vulnerabilities:\na 1: PYSEC-1, CVE-2\n"),
        (
            {"stderr": "WARNING: x\nERROR: connection refused\n\n", "code": 1},
            0,
            "not audited: ERROR: connection refused\n",
        ),
        ({"code": 3}, 0, "not audited: exit code 3\n"),
    ],
    ids=["clean", "vulnerable", "unreachable", "silent"],
)
def test_only_a_known_vulnerability_fails(tmp_path, capsys, given, code, said):
    assert audit.audit(auditor(tmp_path, **given)) == code
    assert capsys.readouterr().out == said


def test_an_auditor_that_hangs_or_is_not_there_fails_nothing(tmp_path, capsys):
    assert audit.audit(auditor(tmp_path, sleep=30), patience_s=0.1) == 0
    assert audit.audit([str(tmp_path / "nothing")]) == 0
    assert capsys.readouterr().out == "not audited: TimeoutExpired\nnot audited: FileNotFoundError\n"


def test_ci_audits_after_everything_else():
    assert "make test-real" in (ROOT / ".ci" / "run").read_text()
    assert (ROOT / ".ci" / "run").read_text().rstrip().splitlines()[-1].endswith(".ci/audit.py")
