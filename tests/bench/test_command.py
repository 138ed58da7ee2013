"""The command line of the suite, and how its children start and end."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.suite import processes, programs
from bench.suite.tools import ToolError

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "bench/run.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "1,99"], "--only: no row 99; there are 1, 2, 2b"),
        (["--runs", "0"], "--runs: at least 1"),
        (["--without", "nginx"], "invalid choice: 'nginx'"),
    ],
)
def test_a_wrong_option_is_refused_by_name(arguments, complaint):
    done = run(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_the_plan_can_be_listed_without_running_it():
    done = run("--list", "--only", "3")
    assert done.stdout == "standard: 4 servers, rows 1, 10, 2, 2b, 3, 4, 5, 9\n    sse512: 4.6 s\n"


def test_results_of_another_shape_end_it_before_anything_is_measured(tmp_path):
    (tmp_path / "latest.json").write_text("{}")
    done = run("--only", "1", "--output", str(tmp_path / "latest.json"))
    assert done.returncode == 2
    assert done.stderr == "bench: latest.json: not results of schema 1; delete it to begin anew\n"


def test_a_child_ends_with_its_whole_session_when_it_is_left(tmp_path):
    script = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); time.sleep(60)"
    core, log = min(os.sched_getaffinity(0)), tmp_path / "log"
    with processes.running([sys.executable, "-c", script], core, log) as process:
        processes.wait_until(lambda: log.read_text().endswith("\n"), process, log, 20)
        grandchild = int(log.read_text())
        assert os.getsid(grandchild) == process.pid
        assert os.sched_getaffinity(process.pid) == {core}
    assert process.returncode is not None
    deadline = time.monotonic() + 10
    while alive(grandchild):
        assert time.monotonic() < deadline


def alive(pid: int) -> bool:
    """Whether it runs; a process that has ended and was not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_that_ends_by_itself_is_told_with_what_it_said(tmp_path):
    core, log = min(os.sched_getaffinity(0)), tmp_path / "log"
    script = "import sys; sys.exit('no licence')"
    with (
        processes.running([sys.executable, "-c", script], core, log) as process,
        pytest.raises(ToolError, match="it ended with 1: no licence"),
    ):
        processes.wait_until(lambda: False, process, log, 20)


def test_children_get_no_settings_of_epp(monkeypatch):
    monkeypatch.setenv("EPP_PORT", "1")
    assert "EPP_PORT" not in processes.environment()
    assert processes.environment()["PYTHONPATH"] == str(ROOT)


def test_free_ports_are_in_a_row_and_below_the_ephemeral_range():
    ports = processes.free_ports(5)
    assert len(ports) == 5
    assert ports[-1] < 32_000
    with pytest.raises(ToolError, match="no 50000 free ports"):
        processes.free_ports(50_000)


def test_one_core_is_not_enough(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    with pytest.raises(ToolError, match="two cores are needed"):
        processes.choose_cores()


def test_the_proxy_gets_the_last_core_and_the_tools_the_first(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 2, 3})
    assert processes.choose_cores() == processes.Cores(proxy=5, tools=2)


def test_a_missing_nginx_that_cannot_be_installed_is_asked_for(monkeypatch):
    monkeypatch.setattr(programs.shutil, "which", lambda *_, **__: None)
    with pytest.raises(ToolError, match="apt-get install nginx-light"):
        programs.ensure_nginx(print)


def test_the_version_of_an_interpreter_is_asked_of_itself():
    assert programs.python_version(sys.executable) == sys.version_info[:3]
