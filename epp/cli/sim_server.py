"""`epp sim-server`: a vLLM server to play with."""

import argparse
import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from epp.simserver import DEFAULT_MODEL, LinearLatency, SimServer, SimSettings
from epp.simulate.fleet import Fleet, Offload, engine_config
from epp.simulate.inputs import read_fleet, read_yaml

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Serve HTTP as vLLM 0.32 does, from a model of its engine: prefix cache in GPU and CPU blocks, continuous
batching, latency, metrics, errors. The text is nonsense; the tokenizer, the token counts and the cache hits
are real. Needs the extra 'sim' (pip install 'epp[sim]').
"""

_MAX_PORT = 65535

EPILOG = """\
examples:
  epp sim-server --port 8001 --gpu-blocks 512 --cpu-blocks 4096
      8,192 tokens in the GPU tier and 65,536 in the CPU tier: easy to overflow
  epp sim-server --port 0 --time-scale 10
      a free port (printed), ten times faster than the modelled GPU
  epp sim-server --port 8001 --profile qwen3-32b:h100:2
      steps take what the simulator says for Qwen3-32B on two H100
  epp sim-server --port 8001 --fleet examples/fleet.yaml
      one server of the fleet that epp simulate reads: its sizes, its steps, its offload
  curl -s localhost:8001/v1/chat/completions -H 'content-type: application/json' \\
      -d '{"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}'
  curl -s localhost:8001/sim/faults -d '{"fault": "status=503", "times": 3}'
      the next three requests fail; see docs/sim-server.md for every fault
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command and its flags."""
    parser = subparsers.add_parser(
        "sim-server",
        help="a server that behaves like vLLM, without a GPU",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    _add_server_flags(parser.add_argument_group("server"))
    _add_engine_flags(parser.add_argument_group("engine"))
    _add_latency_flags(parser.add_argument_group("latency"))
    _add_behaviour_flags(parser.add_argument_group("behaviour of vLLM"))


def _add_server_flags(group: argparse._ArgumentGroup) -> None:
    default = SimSettings()
    group.add_argument("--host", default=default.host, help="address to listen on (%(default)s)")
    group.add_argument(
        "--port", type=_port, default=8000, help="0 takes a free one; it is printed (%(default)s)"
    )
    group.add_argument(
        "--model", metavar="NAME", help=f"served model ({DEFAULT_MODEL}; that of --fleet or --profile)"
    )
    group.add_argument(
        "--lora", action="append", default=[], metavar="NAME", help="an adapter of the model; repeatable"
    )
    group.add_argument(
        "--time-scale",
        type=float,
        default=1.0,
        metavar="S",
        help="model seconds in one real second (%(default)s)",
    )


def _add_engine_flags(group: argparse._ArgumentGroup) -> None:
    default = SimSettings()
    group.add_argument(
        "--gpu-blocks",
        type=int,
        default=default.gpu_blocks,
        metavar="N",
        help="GPU tier in blocks (%(default)s)",
    )
    group.add_argument(
        "--cpu-blocks", type=int, default=0, metavar="N", help="CPU tier in blocks, 0 for none (%(default)s)"
    )
    group.add_argument(
        "--block-size",
        type=int,
        default=default.block_size,
        metavar="N",
        help="tokens in a block (%(default)s)",
    )
    group.add_argument(
        "--max-model-len", type=int, metavar="N", help="longest sequence in tokens (what the GPU tier holds)"
    )
    group.add_argument(
        "--max-num-seqs",
        type=int,
        default=default.max_num_seqs,
        metavar="N",
        help="running batch (%(default)s)",
    )
    group.add_argument(
        "--max-num-batched-tokens",
        type=int,
        default=default.max_num_batched_tokens,
        metavar="N",
        help="tokens computed in one step (%(default)s)",
    )


def _add_latency_flags(group: argparse._ArgumentGroup) -> None:
    as_simulated = group.add_mutually_exclusive_group()
    as_simulated.add_argument(
        "--fleet", metavar="FILE", help="be a server of this fleet file, whose values go before other flags"
    )
    as_simulated.add_argument(
        "--profile", metavar="MODEL[:GPU[:TP]]", help="steps of this model on GPUs, as epp simulate has them"
    )
    group.add_argument("--api-ms", type=float, metavar="X", help="a request's way to the queue (0)")
    group.add_argument("--api-token-us", type=float, metavar="X", help="the same, each prompt token (0)")
    default = LinearLatency()
    for flag, value, text in (
        ("--step-base-ms", default.base_s * 1e3, "every step"),
        ("--token-us", default.token_s * 1e6, "each token that is computed"),
        ("--pair-ns", default.pair_s * 1e9, "each pair of tokens in prefill attention"),
        ("--context-ns", default.context_s * 1e9, "each token a decoding sequence attends to"),
        ("--link-gb-per-s", default.link_bytes_per_s / 1e9, "bandwidth from the CPU tier to the GPU"),
        ("--link-ms", default.link_latency_s * 1e3, "every transfer from the CPU tier"),
    ):
        group.add_argument(
            flag, type=float, default=round(value, 6), metavar="X", help=f"{text} (%(default)s)"
        )


def _add_behaviour_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--stream-interval", type=int, default=1, metavar="N", help="tokens in a chunk (%(default)s)"
    )
    group.add_argument(
        "--answer-tokens",
        type=_length_range,
        default=SimSettings().answer_tokens,
        metavar="MIN:MAX",
        help="length of answers that end by themselves (64:320)",
    )
    group.add_argument(
        "--max-num-queued-reqs",
        type=int,
        metavar="N",
        help="answer 503 above N sequences in flight (no limit)",
    )
    group.add_argument(
        "--shutdown-timeout",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds that requests in flight may go on after SIGTERM (%(default)s: cut at once)",
    )
    group.add_argument("--enable-request-id-headers", action="store_true", help="echo x-request-id")
    group.add_argument(
        "--no-prompt-tokens-details", action="store_true", help="leave cached tokens out of usage"
    )
    group.add_argument(
        "--report-cpu-tier", action="store_true", help="export vllm:kv_offload_config_info, as 0.33 does"
    )
    group.add_argument(
        "--dev-mode", action="store_true", help="serve /reset_prefix_cache, /sleep, /wake_up, /is_sleeping"
    )
    group.add_argument(
        "--runtime-lora",
        action="store_true",
        help="serve /v1/load_lora_adapter and /v1/unload_lora_adapter",
    )


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= _MAX_PORT:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a number from 0 to {_MAX_PORT}, not {text!r}")


def _length_range(text: str) -> tuple[int, int]:
    low, _, high = text.partition(":")
    return int(low), int(high or low)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT.

    Exit codes: 0 ended, 1 the port is taken or the extra is missing, 2 a flag is out of range.
    """
    try:
        settings = _settings(args)
    except ValueError as error:
        print(f"epp sim-server: {error}", file=sys.stderr)
        return 2
    try:
        uvloop.run(_serve(settings))
    except ModuleNotFoundError as error:
        print(f"epp sim-server: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"epp sim-server: cannot listen on {settings.host}:{settings.port}: {error}", file=sys.stderr)
        return 1
    return 0


def _settings(args: argparse.Namespace) -> SimSettings:
    told = _told(args)
    if args.fleet is not None:
        return _of_fleet(told, read_fleet(read_yaml(Path(args.fleet), "--fleet"))[0], args)
    if args.profile is not None:
        fleet, _ = read_fleet(_profile(args.profile))
        return _with_steps(told, fleet, args)
    return told


def _profile(text: str) -> dict[str, Any]:
    """`MODEL[:GPU[:TP]]` as a fleet file."""
    model, gpu, tp = [*text.split(":", 2), "", ""][:3]
    raw: dict[str, Any] = {"model": model}
    if gpu:
        raw["gpu"] = gpu
    if tp:
        raw["tp"] = _whole(tp)
    return raw


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"--profile: {text!r} is not how many GPUs a server has")
    return int(text)


def _with_steps(told: SimSettings, fleet: Fleet, args: argparse.Namespace) -> SimSettings:
    """Steps, transfers and front end as the simulator has them."""
    return replace(
        told,
        model=args.model or fleet.model,
        latency=fleet.step_latency,
        kv_bytes_per_token=fleet.kv_bytes_per_token,
        api_s=fleet.api_s if args.api_ms is None else told.api_s,
        api_token_s=fleet.api_token_s if args.api_token_us is None else told.api_token_s,
    )


def _of_fleet(told: SimSettings, fleet: Fleet, args: argparse.Namespace) -> SimSettings:
    if fleet.offload is Offload.LMCACHE_SHARED:
        raise ValueError("a tier that several servers share is not modelled here, only in epp simulate")
    config = engine_config(replace(fleet, block_tokens=told.block_size))
    return replace(
        _with_steps(told, fleet, args),
        gpu_blocks=config.gpu_blocks,
        cpu_blocks=config.cpu_blocks,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        cpu_unit_blocks=config.cpu_unit_blocks,
        cpu_synchronous=config.cpu_synchronous,
        report_cpu_tier=fleet.report_cpu_tier and bool(config.cpu_blocks),
    )


def _told(args: argparse.Namespace) -> SimSettings:
    """What the flags say by themselves."""
    return SimSettings(
        model=args.model or DEFAULT_MODEL,
        lora=tuple(args.lora),
        host=args.host,
        port=args.port,
        gpu_blocks=args.gpu_blocks,
        cpu_blocks=args.cpu_blocks,
        block_size=args.block_size,
        max_model_len=args.max_model_len,
        max_num_seqs=args.max_num_seqs,
        max_num_batched_tokens=args.max_num_batched_tokens,
        max_num_queued_reqs=args.max_num_queued_reqs,
        time_scale=args.time_scale,
        stream_interval=args.stream_interval,
        latency=LinearLatency(
            base_s=args.step_base_ms / 1e3,
            token_s=args.token_us / 1e6,
            pair_s=args.pair_ns / 1e9,
            context_s=args.context_ns / 1e9,
            link_bytes_per_s=args.link_gb_per_s * 1e9,
            link_latency_s=args.link_ms / 1e3,
        ),
        api_s=(args.api_ms or 0.0) / 1e3,
        api_token_s=(args.api_token_us or 0.0) / 1e6,
        answer_tokens=args.answer_tokens,
        shutdown_timeout_s=args.shutdown_timeout,
        request_id_headers=args.enable_request_id_headers,
        prompt_tokens_details=not args.no_prompt_tokens_details,
        report_cpu_tier=args.report_cpu_tier,
        dev_mode=args.dev_mode,
        runtime_lora=args.runtime_lora,
    )


async def _serve(settings: SimSettings) -> None:
    server = SimServer(settings)
    await server.start()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    print(f"listening on {server.url}", flush=True)
    await ended.wait()
    await server.drain()
