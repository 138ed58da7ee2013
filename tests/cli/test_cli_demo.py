"""`epp demo`: servers and router together."""

import subprocess
import sys

import pytest

from epp.app.server import Started
from epp.cli import demo, main

NOT_A_SERVER = [sys.executable, "-c", "import sys; sys.exit('no room')"]
PRETENDED = (
    "import sys, time\nprint('listening on http://127.0.0.1:' + sys.argv[1], flush=True)\ntime.sleep(600)\n"
)


@pytest.fixture
def processes(monkeypatch):
    """Processes that say they listen, on the ports 7001, 7002, …, instead of simulated servers."""
    begun = []
    start = subprocess.Popen

    def pretend(command, **options):
        begun.append(start([sys.executable, "-c", PRETENDED, str(7001 + len(begun))], **options))
        begun[-1].asked = command
        return begun[-1]

    monkeypatch.setattr(demo.subprocess, "Popen", pretend)
    return begun


@pytest.fixture
def router(monkeypatch):
    """What would be served, without serving it."""
    calls = []

    def pretend(settings, config, on_started):
        calls.append((settings, config))
        on_started(Started("http://127.0.0.1:9999", None))
        return 0

    monkeypatch.setattr(demo, "serve_until_signal", pretend)
    return calls


def test_the_router_is_put_in_front_of_the_servers_and_all_end_together(processes, router, capsys):
    status = main(["demo", "--port", "9999", "--servers", "2", "--time-scale", "5"])
    [(settings, config)] = router
    out = capsys.readouterr().out

    assert status == 0
    assert [endpoint.address for endpoint in settings.endpoint] == ["127.0.0.1:7001", "127.0.0.1:7002"]
    assert (settings.host, settings.port) == ("127.0.0.1", 9999)
    assert config.source == "built-in default.yaml"
    assert "epp is ready on http://127.0.0.1:9999, in front of 2 simulated vLLM servers:" in out
    assert "http://127.0.0.1:7001\n  http://127.0.0.1:7002" in out
    assert " tour --url http://127.0.0.1:9999" in out
    assert processes[0].asked[-2:] != ["--time-scale", "1"]
    assert "--time-scale 5" in " ".join(processes[0].asked)
    assert [process.returncode is None for process in processes] == [False, False]


def test_a_configuration_of_ones_own_is_used(processes, router):
    main(["demo", "--servers", "1", "--config", "config/no-prefix.yaml"])

    assert router[0][1].source == "config/no-prefix.yaml"


def test_a_configuration_that_cannot_be_used_ends_the_servers(processes, router, capsys):
    status = main(["demo", "--servers", "1", "--config", "config/missing.yaml"])

    assert status == 2
    assert "config/missing.yaml cannot be read" in capsys.readouterr().err
    assert processes[0].returncode is not None


def test_a_server_that_does_not_start_ends_the_demo(monkeypatch, router):
    start = subprocess.Popen
    monkeypatch.setattr(demo.subprocess, "Popen", lambda _command, **options: start(NOT_A_SERVER, **options))

    with pytest.raises(SystemExit, match="a simulated server did not start"):
        main(["demo", "--servers", "1"])
    assert router == []


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--servers", "0"), ("--servers", "65"), ("--servers", "two"), ("--port", "-1"), ("--port", "65536")],
)
def test_numbers_out_of_range_are_refused(capsys, flag, value):
    with pytest.raises(SystemExit) as ended:
        main(["demo", f"{flag}={value}"])

    assert ended.value.code == 2
    assert f"argument {flag}: must be a number from " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "on_path", "shown"),
    [
        ("{bin}/epp", "{bin}", "epp"),
        ("{bin}/epp", "", "{bin}/epp"),
        ("/usr/lib/epp/__main__.py", "{bin}", "{python} -m epp"),
    ],
)
def test_the_commands_to_try_can_be_typed_as_they_are_shown(monkeypatch, tmp_path, script, on_path, shown):
    places = {"bin": str(tmp_path), "python": sys.executable}
    (tmp_path / "epp").touch(0o755)
    monkeypatch.setattr(sys, "argv", [script.format(**places)])
    monkeypatch.setenv("PATH", on_path.format(**places))

    assert demo._program() == shown.format(**places)


@pytest.mark.parametrize("scale", ["x", "0", "-1", "nan", "inf"])
def test_a_time_scale_that_is_no_positive_number_is_refused_before_anything_starts(scale, processes, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["demo", f"--time-scale={scale}"])

    assert ended.value.code == 2
    assert f"--time-scale: must be a number above 0, not {scale!r}" in capsys.readouterr().err
    assert processes == []
