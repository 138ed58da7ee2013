"""Where real vLLM cannot run, one line says so and nothing fails; runs everywhere, without vLLM."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.real_vllm.servers import machine_fault

_RUN = Path(__file__).with_name("run.sh")


def run(folder, **programs):
    """Output of `run.sh` with `programs`, name to shell script, before all others in the path."""
    for name, script in programs.items():
        program = folder / name.replace("_", ".")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["bash", str(_RUN), str(folder / "python")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_another_processor_is_skipped(tmp_path):
    done = run(tmp_path, uname="echo Linux aarch64")

    assert done.stdout == "SKIPPED: the CPU build of vLLM is for Linux on x86_64\n"
    assert done.returncode == 0


def test_a_machine_without_python_3_11_is_skipped(tmp_path):
    done = run(tmp_path, uname="echo Linux x86_64", python3_11="exit 127", python="echo 3 12")

    assert done.stdout == "SKIPPED: real vLLM needs Python 3.11, which is not here\n"
    assert done.returncode == 0


def test_a_machine_with_little_memory_is_skipped(tmp_path):
    done = run(tmp_path, uname="echo Linux x86_64", python3_11="echo 3 11", awk="echo 1000000")

    assert done.stdout == "SKIPPED: two vLLM servers need 4 GB of free memory\n"
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("status", "log", "reason"),
    [
        (-9, "", "vLLM was killed, which is how Linux ends processes when memory runs out"),
        (-4, "", "vLLM used an instruction that this processor does not have"),
        (
            1,
            "RuntimeError: [enforce fail at alloc_cpu.cpp] Cannot allocate memory\n",
            "vLLM cannot start here: Cannot allocate memory",
        ),
        (
            1,
            "OSError: [Errno 28] No space left on device\n",
            "vLLM cannot start here: No space left on device",
        ),
    ],
)
def test_a_server_that_the_machine_ends_is_skipped(status, log, reason):
    assert machine_fault(status, log) == reason


@pytest.mark.parametrize(
    ("status", "log"),
    [
        (2, "api_server.py: error: unrecognized arguments: --num-gpu-block-override 256\n"),
        (1, "File hostspec.py, line 20\nTypeError: 'NoneType' object is not iterable\n"),
        (1, "(EngineCore) WARNING 11-30 cpu.py: libomp: cannot open shared object file\n"),
        (-11, ""),
    ],
)
def test_a_server_that_ends_for_another_reason_is_not_skipped(status, log):
    assert machine_fault(status, log) is None
