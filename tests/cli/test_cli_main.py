"""The frame of the command line: which command runs, and how failures become an exit status."""

import os
import subprocess
import sys
import types

import pytest

import epp
from epp.cli import COMMANDS, main
from epp.errors import ConfigError, ConfigProblem


@pytest.fixture
def command(monkeypatch):
    """Puts a module of a command in the place of the real one; its `run` is what the test gives."""

    def install(name, run):
        module = types.ModuleType(f"epp.cli.{name}")

        def add_parser(subparsers):
            parser = subparsers.add_parser(name.replace("_", "-"), allow_abbrev=False)
            parser.add_argument("--port")

        module.add_parser, module.run = add_parser, run
        monkeypatch.setitem(sys.modules, f"epp.cli.{name}", module)

    return install


@pytest.mark.parametrize(
    ("argv", "name", "port"),
    [
        ([], "serve", None),
        (["--port", "1"], "serve", "1"),
        (["serve", "--port=2"], "serve", "2"),
        (["sim-server", "--port", "3"], "sim_server", "3"),
    ],
)
def test_a_command_runs_and_bare_flags_mean_serve(command, argv, name, port):
    ran = []
    command(name, lambda arguments: ran.append(arguments.port) or 7)

    assert main(argv) == 7
    assert ran == [port]


def test_the_arguments_of_the_process_are_the_default(command, monkeypatch):
    command("serve", lambda arguments: int(arguments.port))
    monkeypatch.setattr(sys, "argv", ["epp", "--port", "5"])

    assert main() == 5


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help"]])
def test_help_teaches_with_every_command_and_examples(capsys, argv):
    assert main(argv) == 0

    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "epp --endpoint http://10.0.0.1:8000" in text
    assert "epp check plugins.yaml" in text


def test_help_imports_no_command():
    code = "import sys, epp.cli; epp.cli.main(['--help']); print(sorted(m for m in sys.modules if m.startswith('epp')))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "['epp', 'epp.cli', 'epp.errors']"


def test_version_is_the_packages(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"epp {epp.__version__}\n"


def test_an_unknown_command_is_told_with_the_known_ones(capsys):
    assert main(["chek"]) == 2
    assert capsys.readouterr().err == (
        "epp: unknown command 'chek'; commands: serve, gateway, check, doctor, explain, sim-server, simulate, "
        "capacity, advise, demo, tour\n"
    )


def test_an_unknown_flag_exits_with_2(command, capsys):
    command("serve", lambda _: 0)

    with pytest.raises(SystemExit) as raised:
        main(["--prot", "1"])

    assert raised.value.code == 2
    assert "unrecognized arguments: --prot 1" in capsys.readouterr().err


def test_a_configuration_error_is_a_message_and_2(command, capsys):
    def run(_arguments):
        raise ConfigError([ConfigProblem("a.b", "is wrong", "write c", line=3)], "file.yaml")

    command("serve", run)

    assert main([]) == 2
    assert (
        capsys.readouterr().err
        == "epp: file.yaml: configuration is invalid\na.b (line 3): is wrong; write c\n"
    )


def test_an_interrupt_is_130(command):
    def run(_arguments):
        raise KeyboardInterrupt

    command("serve", run)

    assert main([]) == 130


def test_a_reader_that_has_gone_is_141(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)

        assert main(["--help"]) == 141


def test_python_m_epp_is_the_command():
    done = subprocess.run([sys.executable, "-m", "epp", "chek"], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith("epp: unknown command 'chek'")
