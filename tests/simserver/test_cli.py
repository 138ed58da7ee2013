"""The command: its flags, its one line of output, its exit codes."""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from epp.cli import sim_server
from epp.engine import LinearLatency, StepLoad
from epp.errors import ConfigError
from epp.simserver import SimSettings
from epp.simulate.inputs import read_fleet
from tests.simserver.kit import eventually

ROOT = Path(__file__).parents[2]
SCRIPT = """
import argparse, sys
from epp.cli import sim_server
parser = argparse.ArgumentParser()
sim_server.add_parser(parser.add_subparsers())
args = parser.parse_args(sys.argv[1:])
sys.exit(args.run(args))
"""


def parse(*argv):
    parser = argparse.ArgumentParser(prog="epp")
    sim_server.add_parser(parser.add_subparsers())
    return parser.parse_args(["sim-server", *argv])


def test_without_flags_the_settings_are_the_defaults_on_port_8000():
    assert sim_server._settings(parse()) == SimSettings(port=8000)


def test_every_flag_reaches_its_setting():
    argv = """--host 0.0.0.0 --port 1 --model m --lora a --lora b --time-scale 2 --gpu-blocks 100 --cpu-blocks 200
        --block-size 32 --max-model-len 64 --max-num-seqs 3 --max-num-batched-tokens 4 --step-base-ms 5
        --token-us 6 --pair-ns 7 --context-ns 8 --link-gb-per-s 9 --link-ms 10 --stream-interval 11
        --answer-tokens 12:13 --max-num-queued-reqs 14 --shutdown-timeout 15 --enable-request-id-headers
        --no-prompt-tokens-details --report-cpu-tier --dev-mode"""

    assert sim_server._settings(parse(*argv.split())) == SimSettings(
        host="0.0.0.0",
        port=1,
        model="m",
        lora=("a", "b"),
        time_scale=2.0,
        gpu_blocks=100,
        cpu_blocks=200,
        block_size=32,
        max_model_len=64,
        max_num_seqs=3,
        max_num_batched_tokens=4,
        latency=LinearLatency(
            base_s=5 / 1e3,
            token_s=6 / 1e6,
            pair_s=7 / 1e9,
            context_s=8 / 1e9,
            link_bytes_per_s=9e9,
            link_latency_s=10 / 1e3,
        ),
        stream_interval=11,
        answer_tokens=(12, 13),
        max_num_queued_reqs=14,
        shutdown_timeout_s=15.0,
        request_id_headers=True,
        prompt_tokens_details=False,
        report_cpu_tier=True,
        dev_mode=True,
    )


FLEET = """
{model: llama-3.1-8b, gpu: h200, tp: 1, engines: 3, gpuBlocks: 500, cpuBlocks: 900, offload: lmcache-local,
 maxNumSeqs: 7, maxNumBatchedTokens: 2048, latencyFactor: 2}
"""


def test_a_profile_gives_the_steps_of_the_simulator_and_the_flags_the_sizes():
    settings = sim_server._settings(parse("--profile", "qwen3-32b:h100:2", "--gpu-blocks", "77"))
    fleet, _ = read_fleet({"model": "qwen3-32b", "gpu": "h100", "tp": 2})

    assert (settings.model, settings.gpu_blocks, settings.latency) == ("qwen3-32b", 77, fleet.latency)
    assert (settings.kv_bytes_per_token, settings.api_s, settings.api_token_s) == (131_072, 0.03, 1.2e-6)
    assert round(settings.latency.step_s(StepLoad(8192, 8192 * 4096, 0, 0)), 3) == 0.52


def test_a_fleet_file_makes_a_server_of_that_fleet(tmp_path):
    (tmp_path / "fleet.yaml").write_text(FLEET)
    settings = sim_server._settings(
        parse("--fleet", str(tmp_path / "fleet.yaml"), "--model", "m", "--api-ms", "1", "--api-token-us", "0")
    )
    config = settings.engine_config()

    assert (settings.model, settings.api_s, settings.api_token_s) == ("m", 0.001, 0.0)
    assert (config.usable_gpu_blocks, config.cpu_blocks, config.block_tokens) == (500, 900, 16)
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (7, 2048)
    assert (config.cpu_unit_blocks, config.cpu_synchronous, config.kv_bytes_per_token) == (16, True, 131_072)
    assert settings.report_cpu_tier is True
    assert settings.latency == read_fleet(yaml.safe_load(FLEET))[0].step_latency


def test_without_a_cpu_tier_none_is_reported(tmp_path):
    (tmp_path / "fleet.yaml").write_text("engines: 1\n")

    assert sim_server._settings(parse("--fleet", str(tmp_path / "fleet.yaml"))).report_cpu_tier is False


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--profile", "qwen3-32b:h100:two"), "'two' is not how many GPUs a server has"),
        (("--api-ms", "-1"), "api times must not be negative"),
        (("--fleet", "FLEET"), "a tier that several servers share is not modelled here"),
    ],
)
def test_what_it_cannot_be_ends_with_2(argv, said, tmp_path, capsys):
    (tmp_path / "fleet.yaml").write_text("{offload: lmcache-shared, cpuBlocks: 900}\n")
    args = parse(*(str(tmp_path / "fleet.yaml") if word == "FLEET" else word for word in argv))

    assert args.run(args) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--profile", "gpt-5"), "'gpt-5' is no file and no known model"),
        (("--profile", "qwen3-32b:b300"), "'b300' is unknown; known: a100, h100, h200"),
        (("--fleet", "nowhere.yaml"), "nowhere.yaml: No such file or directory"),
    ],
)
def test_a_profile_or_a_file_that_is_not_there_is_a_fault_of_the_input(argv, said):
    args = parse(*argv)

    with pytest.raises(ConfigError) as raised:
        args.run(args)
    assert said in str(raised.value.problems[0])


def test_one_length_is_a_range_of_one():
    assert parse("--answer-tokens", "7").answer_tokens == (7, 7)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--answer-tokens", "long"), "invalid"),
        (("--port", "http"), "must be a number from 0 to 65535, not 'http'"),
        (("--port", "65536"), "must be a number from 0 to 65535, not '65536'"),
        (("--port=-1",), "must be a number from 0 to 65535, not '-1'"),
    ],
)
def test_a_flag_that_cannot_be_read_ends_with_2(argv, said, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(*argv)

    assert ended.value.code == 2
    assert f"argument {argv[0].partition('=')[0]}: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--gpu-blocks", "1"], "gpu_blocks must be at least 2 (one is the null block), got 1"),
        (["--gpu-blocks", "9" * 17], "gpu_blocks must be at most 10000000, got 99999999999999999"),
        (["--cpu-blocks", "10000001"], "cpu_blocks must be at most 10000000, got 10000001"),
    ],
)
def test_a_flag_out_of_range_ends_with_2(argv, said, capsys):
    args = parse(*argv)

    assert args.run(args) == 2
    assert capsys.readouterr().err == f"epp sim-server: {said}\n"


async def test_a_taken_port_ends_with_1(launch, capsys):
    server = await launch()
    args = parse("--port", str(server.port))

    assert await asyncio.to_thread(args.run, args) == 1
    assert capsys.readouterr().err.startswith(f"epp sim-server: cannot listen on 127.0.0.1:{server.port}: ")


def test_without_the_extra_it_ends_with_1(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    args = parse("--port", "0")

    assert args.run(args) == 1
    assert (
        capsys.readouterr().err
        == "epp sim-server: simulated servers need the extra: pip install 'epp[sim]'\n"
    )


def test_an_orderly_end_is_0(monkeypatch):
    async def serve(settings):
        assert settings.port == 1234

    monkeypatch.setattr(sim_server, "_serve", serve)
    args = parse("--port", "1234")

    assert args.run(args) == 0


async def test_it_serves_until_it_is_told_to_end(capsys):
    output = ""

    def listening():
        nonlocal output
        output += capsys.readouterr().out
        return output.endswith("\n")

    serving = asyncio.create_task(sim_server._serve(SimSettings()))
    await eventually(listening)
    url = output.removeprefix("listening on ").strip()
    async with httpx.AsyncClient() as client:
        status = (await client.get(f"{url}/health")).status_code
    os.kill(os.getpid(), signal.SIGTERM)
    await serving

    assert status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_as_a_process_it_prints_one_line_and_ends_with_0(number):
    command = [sys.executable, "-c", SCRIPT, "sim-server", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        line = process.stdout.readline().decode()
        process.send_signal(number)
        rest, errors = process.communicate(timeout=20)

    assert line.startswith("listening on http://127.0.0.1:")
    assert (rest, errors, process.returncode) == (b"", b"", 0)
