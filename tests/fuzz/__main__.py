"""`make fuzz`: lets a coverage-guided fuzzer at one target, or at each in turn.

What it learns is kept in `.fuzz/`; an input that breaks something is written there and named.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
LEARNT = ROOT / ".fuzz"
_PRODUCT = ["epp.request", "epp.response", "epp.director", "epp.config", "epp.scrape", "epp.http"]


def fuzz(name: str, seconds: int) -> None:
    """Never returns: the fuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=_PRODUCT):
        from tests.fuzz.targets import TARGETS
    learnt = LEARNT / name
    learnt.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        "-max_len=4096",
        "-timeout=10",
        f"-artifact_prefix={learnt}/crash-",
    ]
    atheris.Setup(
        [sys.argv[0], *options, "-verbosity=0", "-print_final_stats=1", str(learnt), str(CORPUS / name)],
        TARGETS[name],
    )
    atheris.Fuzz()


def main() -> int:
    """0 when nothing broke."""
    names = sorted(path.name for path in CORPUS.iterdir())
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "target", nargs="?", choices=names, help="all of them, one after the other, unless given"
    )
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    given = parser.parse_args()
    if given.target:
        fuzz(given.target, given.seconds)
    broken = []
    for name in names:
        print(f"{name}: {given.seconds} s", flush=True)
        command = [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(given.seconds)]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            broken.append(name)
    print(f"broken: {', '.join(broken)}" if broken else "nothing broke")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
