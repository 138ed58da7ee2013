"""`epp capacity`: bytes, blocks and tokens of the KV cache of a server."""

import argparse
import json
import sys
from dataclasses import asdict

from epp.errors import ConfigError, ConfigProblem
from epp.simulate.capacity import Capacity, Given, capacity
from epp.simulate.inputs import known_gpus, known_models, model_shape

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  epp capacity --model qwen3-32b --gpu h100 --tp 2 --cpu-gb 100
      blocks that fit, and what to write into the configurations
  epp capacity --model ./config.json --gpu h100 --tp 2 --gpu-blocks 9271 --cpu-blocks 41000 --cpu-gb 100
      whether given figures agree with each other: here they do not

exit codes: 0 done, warnings included; 2 an input cannot be used
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "capacity",
        allow_abbrev=False,
        help="how much KV cache fits where",
        description="Bytes of a token's keys and values from the model's config.json (its head_dim first), "
        "and from them the blocks of both tiers, what to set, and which given figures disagree.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    models, gpus = ", ".join(known_models()), ", ".join(known_gpus())
    parser.add_argument("--model", required=True, metavar="NAME", help=f"a config.json, or one of: {models}")
    parser.add_argument("--gpu", choices=known_gpus(), default="h100", help=f"{gpus} (%(default)s)")
    parser.add_argument("--tp", type=int, default=1, metavar="N", help="tensor-parallel ranks (%(default)s)")
    parser.add_argument("--block-size", type=int, default=16, metavar="N", help="tokens (%(default)s)")
    parser.add_argument(
        "--kv-cache-dtype", choices=("auto", "fp8"), default="auto", help="of the engine (%(default)s)"
    )
    parser.add_argument(
        "--gpu-memory-utilization", type=float, default=0.9, metavar="X", help="(%(default)s)"
    )
    parser.add_argument("--gpu-blocks", type=int, metavar="N", help="from the engine's log")
    parser.add_argument("--cpu-gb", type=float, metavar="GB", help="CPU tier of the server, in 10^9 bytes")
    parser.add_argument("--cpu-blocks", type=int, metavar="N", help="the same in engine blocks")
    parser.add_argument("--bytes-per-token", type=float, metavar="N", help="a figure to check")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the figures."""
    shape, gpu = model_shape(arguments.model), known_gpus()[arguments.gpu]
    try:
        given = Given(
            tp=arguments.tp,
            block_tokens=arguments.block_size,
            element_bytes=1.0 if arguments.kv_cache_dtype == "fp8" else 2.0,
            gpu_memory_utilization=arguments.gpu_memory_utilization,
            gpu_blocks=arguments.gpu_blocks,
            cpu_bytes=None if arguments.cpu_gb is None else arguments.cpu_gb * 1e9,
            cpu_blocks=arguments.cpu_blocks,
            bytes_per_token=arguments.bytes_per_token,
        )
        found = capacity(shape, gpu, given)
    except ValueError as error:
        raise ConfigError([ConfigProblem("capacity", str(error), "see epp capacity --help")]) from None
    sys.stdout.write(
        json.dumps(asdict(found), indent=2) + "\n" if arguments.format == "json" else _text(found)
    )
    return 0


def _text(found: Capacity) -> str:
    estimated = " (estimated from memory and weights)" if found.gpu_blocks_estimated else ""
    lines = [
        f"a token     {found.bytes_per_token:>14,} bytes, over all ranks",
        f"a block     {found.bytes_per_block:>14,} bytes",
        _tier("GPU", found.gpu_blocks, found.gpu_tokens, found.gpu_bytes) + estimated,
    ]
    if found.cpu_blocks is not None:
        lines.append(_tier("CPU", found.cpu_blocks, found.cpu_tokens or 0, found.cpu_bytes or 0))
    lines += ["", "set", *(f"  {line}" for line in found.settings)]
    if found.warnings:
        lines += ["", *(f"warning: {line}" for line in found.warnings)]
    return "\n".join(lines) + "\n"


def _tier(name: str, blocks: int, tokens: int, size_bytes: int) -> str:
    return f"{name} tier    {blocks:>14,} blocks, {tokens:,} tokens, {size_bytes / 1e9:.1f} GB"
