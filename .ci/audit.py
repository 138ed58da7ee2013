"""Known faults of what is pinned, for CI: a source of advisories that cannot be reached fails nothing.

Exit code 1: a pinned version has a known vulnerability. 0: none has, or it is printed that nobody can tell.
`make audit` is the same without this mercy.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PINS = Path(__file__).parents[1] / "constraints.txt"
COMMAND = [
    sys.executable,
    "-m",
    "pip_audit",
    "--strict",
    "--no-deps",
    "--disable-pip",
    "--progress-spinner=off",
]
PATIENCE_S = 120


def vulnerable(found: Path) -> list[str]:
    """What the report tells of pins with advisories; empty without a report."""
    if not found.exists() or not found.read_text():
        return []
    dependencies = json.loads(found.read_text())["dependencies"]
    return [
        f"{d['name']} {d['version']}: {', '.join(v['id'] for v in d['vulns'])}"
        for d in dependencies
        if d.get("vulns")
    ]


def audit(command: list[str], patience_s: float = PATIENCE_S) -> int:
    """Run the auditor; returns the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        try:
            done = subprocess.run(
                [*command, "--format=json", f"--output={report}", f"--requirement={PINS}"],
                capture_output=True, text=True, timeout=patience_s, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"not audited: {type(error).__name__}")
            return 0
        known = vulnerable(report)
    if known:
        print("\n".join(["known vulnerabilities:", *known]))
        return 1
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        print(f"not audited: {lines[-1] if lines else f'exit code {done.returncode}'}")
        return 0
    print("audited: no pinned version has a known vulnerability")
    return 0


if __name__ == "__main__":
    sys.exit(audit(COMMAND))
