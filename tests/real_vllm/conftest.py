"""Two real vLLM servers for the session, and a fresh router with empty tiers for each test."""

import os
from pathlib import Path

import pytest

from tests.real_vllm.agreement import Agreement
from tests.real_vllm.make_model import make_model
from tests.real_vllm.router import Router
from tests.real_vllm.servers import MachineError, VllmServer, start_all

_ROWS = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """The servers, started once; `servers` brings back those that a test has ended."""
    venv = os.environ.get("VLLM_VENV")
    if venv is None:
        pytest.skip("VLLM_VENV names no environment with vLLM; `make test-real` makes one")
    folder = tmp_path_factory.mktemp("vllm")
    make_model(folder / "model")
    servers = [VllmServer(Path(venv), folder / "model", folder / f"{name}.log") for name in ("a", "b")]
    try:
        start_all(servers)
        yield servers
    except MachineError as error:
        _note_skip(str(error))
        pytest.skip(str(error))
    finally:
        for server in servers:
            server.kill()


@pytest.fixture
def servers(fleet):
    """Both servers, healthy, idle and with empty tiers."""
    for server in fleet:
        server.thaw()  # whatever a test has left behind
    start_all(fleet)
    for server in fleet:
        server.empty_tiers()
    return fleet


@pytest.fixture
def router(servers, tmp_path):
    """epp with `picker.yaml`, knowing both servers and no prompt."""
    with Router(servers, tmp_path / "epp.log") as running:
        yield running


@pytest.fixture
def agreement(router, servers, request):
    """Compares what the router predicts with what the engines count; the figures are printed at the end."""
    rows = request.config.stash.setdefault(_ROWS, [])
    return Agreement(router, servers, rows.append)


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash.get(_ROWS, [])
    if rows:
        terminalreporter.section("predicted hit tokens, and what vLLM counted")
        for row in rows:
            terminalreporter.write_line(row)


def _note_skip(reason: str) -> None:
    """Tell `run.sh` why nothing could be tested."""
    path = os.environ.get("VLLM_SKIP_FILE")
    if path is not None:
        Path(path).write_text(reason.splitlines()[0])
