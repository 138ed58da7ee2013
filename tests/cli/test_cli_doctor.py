"""`epp doctor` in front of simulated servers."""

import asyncio
import contextlib
import json
import socket

import pytest

from epp.cli import main
from epp.simserver import SimServer
from tests.app.endpoint import ModelEndpoint
from tests.certificates import Authority
from tests.config.config_texts import HEAD

CONFIG = HEAD + "plugins:\n- type: queue-scorer\n- type: prefix-cache-scorer\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into the current directory of the test; the environment holds no EPP_ variable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", {})

    def put(name, text):
        (tmp_path / name).write_text(text)
        return name

    return put


async def doctor(*arguments):
    """The command in a thread of its own, where it makes its own loop; a usage error exits like a process."""

    def run():
        try:
            return main(["doctor", *arguments])
        except SystemExit as error:
            return error.code

    return await asyncio.to_thread(run)


@contextlib.contextmanager
def silent_server():
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.e2e
async def test_a_fitting_server_exits_with_0(write, capsys):
    config = write("plugins.yaml", CONFIG)

    async with SimServer() as server:
        status = await doctor("--config", config, "--endpoint", server.url, "--probe")

    captured = capsys.readouterr()
    assert status == 0, captured.out
    assert captured.out.splitlines() == [
        "configuration: plugins.yaml",
        "",
        f"{server.url}  (vllm 0.32.0, sim/llama-8b)",
        "  fine",
        "",
        "pool and settings",
        "  fine",
        "",
        "nothing found",
    ]
    assert captured.err == ""


@pytest.mark.e2e
async def test_what_the_server_lacks_is_found_and_exits_with_1(write, capsys):
    async with SimServer(prompt_tokens_details=False) as first, SimServer(block_size=32) as second:
        endpoints = ("--endpoint", first.url, "--endpoint", f"{second.url},zone=a")
        status = await doctor(*endpoints, "--probe", "--format", "json")

    report = json.loads(capsys.readouterr().out)
    assert status == report["exit_status"] == 1
    assert {(f["endpoint"] or "").rpartition(":")[2] + " " + f["code"] for f in report["findings"]} == {
        f"{first.port} cpu-tier-absent",
        f"{first.port} prompt-details-off",
        f"{second.port} cpu-tier-absent",
        " context-differs",
        " block-sizes-differ",
        " capacities-differ",
    }


@pytest.mark.e2e
async def test_endpoints_and_limits_of_the_settings_file_count(write, capsys):
    async with SimServer() as server:
        settings = write("settings.yaml", f"endpoint: [{server.url}]\nupstream: {{keepAlive: 60s}}\n")
        status = await doctor("--settings", settings, "--config", write("plugins.yaml", CONFIG))

    assert status == 1
    assert (
        f"upstream.keepAlive: 60s, 127.0.0.1:{server.port} closes idle connections after 5 s"
        in capsys.readouterr().out
    )


async def test_an_unreachable_endpoint_exits_with_3(write, capsys):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

    assert await doctor("--endpoint", url) == 3
    assert "  ERROR    endpoint-unreachable\n" in capsys.readouterr().out


@pytest.mark.e2e
async def test_who_is_waited_for_is_told_on_standard_error(write, capsys, monkeypatch):
    monkeypatch.setattr("epp.doctor.observe.observe_all.__defaults__", (0.01,))

    with silent_server() as url:
        status = await doctor("--endpoint", url, "--timeout", "0.2", "--config", write("p.yaml", CONFIG))

    captured = capsys.readouterr()
    assert status == 3
    assert captured.err.splitlines()[0] == f"epp doctor: waiting for {url.removeprefix('http://')}"
    assert "/health: not complete within 0.2 s" in captured.out


async def test_the_endpoint_key_is_sent(write, monkeypatch, capsys):
    monkeypatch.setattr("os.environ", {"EPP_ENDPOINT_KEY": "sesame", "EPP_STRANGE": "1"})

    async with SimServer(record_requests=1) as server:
        await doctor("--endpoint", server.url, "--probe")
        (request,) = server.core.seen

    assert (b"authorization", b"Bearer sesame") in request.headers
    assert "EPP_STRANGE is no setting" in capsys.readouterr().err


async def test_without_an_endpoint_it_is_a_configuration_error(write, capsys):
    assert await doctor() == 2
    assert "no endpoint is configured; give --endpoint http://host:port" in capsys.readouterr().err


async def test_an_invalid_configuration_is_a_configuration_error(write, capsys):
    config = write("plugins.yaml", HEAD + "plugins: 7\n")

    assert await doctor("--config", config, "--endpoint", "http://127.0.0.1:9") == 2


@pytest.mark.parametrize("seconds", ["0", "-1", "inf", "nan", "soon"])
async def test_a_timeout_is_a_positive_number(write, capsys, seconds):
    assert await doctor(f"--timeout={seconds}") == 2
    assert "must be a number above 0, not " in capsys.readouterr().err


@pytest.mark.e2e
async def test_endpoints_over_tls_are_asked_as_the_router_asks_them(write, capsys, tmp_path):
    ca = Authority(tmp_path, "ours")
    async with ModelEndpoint(ca.server(ca.issue())) as endpoint:
        trusted = write("trusted.yaml", f"upstream: {{tls: {{ca: {ca.file}}}}}\n")
        await doctor("--endpoint", endpoint.url, "--settings", trusted, "--format", "json")
        known = json.loads(capsys.readouterr().out)
        without = await doctor("--endpoint", endpoint.url, "--format", "json")
        unknown = json.loads(capsys.readouterr().out)
        write("faulty.yaml", "upstream: {tls: {ca: nowhere.pem}}\n")
        faulty = await doctor("--endpoint", endpoint.url, "--settings", "faulty.yaml")

    assert (without, faulty) == (3, 2)
    assert "endpoint-unreachable" not in {finding["code"] for finding in known["findings"]}
    assert "endpoint-unreachable" in {finding["code"] for finding in unknown["findings"]}
    assert "upstream.tls" in capsys.readouterr().err
