"""Fleet and workload files: YAML, strict, every fault with its key."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from epp.engine import (
    GPUS,
    MODELS,
    Gpu,
    Grid,
    GridLatency,
    ModelShape,
    StepLatency,
    kernel_latency,
    read_config,
)
from epp.errors import ConfigError, ConfigProblem
from epp.simulate.conversations import Conversations
from epp.simulate.events import Event, EventKind
from epp.simulate.fleet import Fleet, Offload
from epp.simulate.recorded_trace import is_recording, read_recording
from epp.simulate.shared_prefix import SharedPrefix, Stage, closed_loop, ladder
from epp.simulate.traces import TraceOptions, play, read_trace
from epp.simulate.workload import Workload

__all__ = [
    "FleetFile", "WorkloadFile", "fleet_of", "known_gpus", "known_models", "model_shape", "override",
    "read_fleet", "read_grid", "read_workload", "read_yaml", "workload_of",
]  # fmt: skip

_BLOCK_TOKENS = 16


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Keys in camelCase, and no others."""


class EventFile(_Strict, frozen=True):
    """What goes wrong: `kind` at `at` seconds, on the endpoint of that number."""

    at: float
    kind: EventKind
    endpoint: int = 0


class FleetFile(_Strict, frozen=True):
    """Servers of one kind; blocks are engine blocks of 16 tokens, `model` a known name or a config.json."""

    model: str = "qwen3-32b"
    gpu: str = "h100"
    tp: int = 2
    engines: int = 8
    gpu_blocks: int = 9_271
    cpu_blocks: int = 0
    offload: Offload = Offload.NONE
    kv_dtype_bytes: float = 2.0
    latency_grid: str | None = None
    link_gb_per_s: float | None = None
    step_overhead_ms: float | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8_192
    block_tokens: int = 64
    scrape_interval_ms: float = 50.0
    report_cpu_tier: bool = True
    latency_factor: float = 1.0
    step_noise: float = 0.0
    events: tuple[EventFile, ...] = ()


class PrefillGridFile(_Strict, frozen=True):
    """Milliseconds of steps that compute `tokens` after `context` others: a row for each of `tokens`."""

    tokens: tuple[float, ...]
    ms: tuple[tuple[float, ...], ...]
    context: tuple[float, ...] = (0.0,)


class DecodeGridFile(_Strict, frozen=True):
    """Milliseconds of steps of so many `sequences`, each with `context`: a row for each of `sequences`."""

    sequences: tuple[float, ...]
    context: tuple[float, ...]
    ms: tuple[tuple[float, ...], ...]


class GridFile(_Strict, frozen=True):
    """Measured step times, and the link to the CPU tier."""

    prefill: PrefillGridFile
    decode: DecodeGridFile
    link_gb_per_s: float = 40.0
    link_latency_ms: float = 5.0


class StageFile(_Strict, frozen=True):
    """One rate of a ladder."""

    rate: float
    duration_s: float = msgspec.field(name="duration")
    interval_s: float = msgspec.field(default=0.0, name="interval")


class SharedPrefixFile(_Strict, frozen=True, tag="shared-prefix", tag_field="kind"):
    """inference-perf's parameters; either `concurrency` with `numRequests`, or `stages`."""

    num_groups: int
    num_prompts_per_group: int
    system_prompt_len: int
    question_len: int
    output_len: int
    inflation: float = 1.0
    concurrency: int = 0
    num_requests: int = 0
    stages: tuple[StageFile, ...] = ()


class ConversationsFile(_Strict, frozen=True, tag="conversations", tag_field="kind"):
    """Sessions that begin at `rate` a second, each of `turns` turns with `thinkTime` seconds between."""

    sessions: int
    rate: float
    turns: int = 5
    system_prompt_len: int = 1_000
    user_len: int = 200
    output_len: int = 300
    think_time: float = 10.0


class TraceFile(_Strict, frozen=True, tag="trace", tag_field="kind"):
    """A recorded trace, played `speed` times as fast."""

    file: str
    speed: float = 1.0
    limit: int = 0
    max_prompt_tokens: int = 126_000
    block_tokens: int = 0


WorkloadFile = SharedPrefixFile | ConversationsFile | TraceFile


def _fail(where: str, said: str, remedy: str = "see docs/simulation.md") -> ConfigError:
    return ConfigError([ConfigProblem(where, said, remedy)], "simulation")


def _in_camel_case(message: str) -> str:
    """With the names that files have for what objects call otherwise."""
    for tokens, blocks in (("gpu_tokens", "gpuBlocks x 16"), ("cpu_tokens", "cpuBlocks x 16")):
        message = message.replace(tokens, blocks)
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), message)


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a file.

    Raises:
        ConfigError: it cannot be read, or holds no mapping.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _fail(what, f"{path}: {error.strerror or error}", "name a readable file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _fail(what, f"{path} is no YAML: {error}") from None
    if not isinstance(found, dict):
        raise _fail(what, f"{path} must hold a mapping, not {type(found).__name__}")
    return found


def override(raw: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """`raw` with `key` (dots descend) set to `value`."""
    head, _, rest = key.partition(".")
    changed = dict(raw)
    changed[head] = override(changed.get(head) or {}, rest, value) if rest else value
    return changed


def _convert(raw: Mapping[str, Any], kind: Any, what: str) -> Any:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _fail(what, str(error)) from None


def known_gpus() -> Mapping[str, Gpu]:
    """GPUs by name."""
    return GPUS


def known_models() -> tuple[str, ...]:
    """Models whose config.json is known."""
    return tuple(MODELS)


def model_shape(name: str) -> ModelShape:
    """A known model, or the one that a config.json describes.

    Raises:
        ConfigError: neither; or the file lacks a field.
    """
    if name in MODELS:
        return read_config(MODELS[name], name)
    path = Path(name)
    if not path.is_file():
        raise _fail("model", f"{name!r} is no file and no known model", f"known: {', '.join(MODELS)}")
    try:
        return read_config(json.loads(path.read_text(encoding="utf-8")), name)
    except (ValueError, UnicodeDecodeError) as error:
        raise _fail("model", f"{name}: {error}", "give the model's own config.json") from None


def read_fleet(raw: Mapping[str, Any]) -> tuple[Fleet, tuple[Event, ...]]:
    """The fleet that a file describes, and what goes wrong on it.

    Raises:
        ConfigError: with the key.
    """
    return fleet_of(_convert(raw, FleetFile, "fleet"))


def fleet_of(told: FleetFile) -> tuple[Fleet, tuple[Event, ...]]:
    """A fleet file as objects.

    Raises:
        ConfigError: a value is out of range.
    """
    shape = model_shape(told.model)
    if told.gpu not in GPUS:
        raise _fail("fleet.gpu", f"{told.gpu!r} is unknown", f"known: {', '.join(GPUS)}")
    try:
        latency = _latency(told, shape)
        if told.link_gb_per_s is not None:
            latency = latency.with_link(told.link_gb_per_s * 1e9)
        fleet = Fleet(
            engines=told.engines,
            gpu_tokens=told.gpu_blocks * _BLOCK_TOKENS,
            cpu_tokens=told.cpu_blocks * _BLOCK_TOKENS,
            latency=latency,
            kv_bytes_per_token=shape.kv_bytes_per_token(told.kv_dtype_bytes) // min(told.tp, shape.kv_heads),
            offload=told.offload,
            model=told.model,
            block_tokens=told.block_tokens,
            max_num_seqs=told.max_num_seqs,
            max_num_batched_tokens=told.max_num_batched_tokens,
            scrape_s=told.scrape_interval_ms / 1e3,
            report_cpu_tier=told.report_cpu_tier,
            step_noise=told.step_noise,
        )
    except ValueError as error:
        raise _fail("fleet", _in_camel_case(str(error))) from None
    events = tuple(Event(event.at, event.kind, event.endpoint) for event in told.events)
    if any(not 0 <= event.endpoint < fleet.engines for event in events):
        raise _fail("fleet.events", f"endpoint must be below {fleet.engines}, the number of engines")
    return fleet, events


def _latency(told: FleetFile, shape: ModelShape) -> StepLatency:
    """Composed from kernels, or as the user has measured."""
    if told.latency_grid is None:
        kernels = kernel_latency(shape, GPUS[told.gpu], told.tp).scaled(told.latency_factor)
        if told.step_overhead_ms is None:
            return kernels
        return replace(kernels, overhead_s=told.step_overhead_ms / 1e3)
    if told.step_overhead_ms is not None:
        raise ValueError("stepOverheadMs is part of what latencyGrid measures; give one of them")
    return read_grid(read_yaml(Path(told.latency_grid), "fleet.latencyGrid")).scaled(told.latency_factor)


def read_grid(raw: Mapping[str, Any]) -> GridLatency:
    """Measured step times.

    Raises:
        ConfigError: with the key.
    """
    told: GridFile = _convert(raw, GridFile, "latencyGrid")
    try:
        prefill = _grid(told.prefill.tokens, told.prefill.context, told.prefill.ms)
    except ValueError as error:
        raise _fail("latencyGrid.prefill", str(error)) from None
    try:
        decode = _grid(told.decode.sequences, told.decode.context, told.decode.ms)
    except ValueError as error:
        raise _fail("latencyGrid.decode", str(error)) from None
    return GridLatency(
        prefill,
        decode,
        link_bytes_per_s=told.link_gb_per_s * 1e9,
        link_latency_s=told.link_latency_ms / 1e3,
    )


def _grid(rows: tuple[float, ...], columns: tuple[float, ...], ms: tuple[tuple[float, ...], ...]) -> Grid:
    return Grid(rows, columns, tuple(tuple(value / 1e3 for value in row) for row in ms))


def read_workload(raw: Mapping[str, Any]) -> WorkloadFile:
    """A workload file as it stands.

    Raises:
        ConfigError: with the key.
    """
    told: WorkloadFile = _convert(raw, WorkloadFile, "workload")
    return told


def workload_of(told: WorkloadFile, seed: int) -> Workload:
    """The requests; a trace is the same for every seed.

    Raises:
        ConfigError: a value is out of range, or a trace cannot be read.
    """
    try:
        if isinstance(told, TraceFile):
            options = TraceOptions(told.speed, told.limit, told.max_prompt_tokens, told.block_tokens)
            return _trace(Path(told.file), options)
        if isinstance(told, ConversationsFile):
            fields = msgspec.structs.asdict(told)
            return Conversations(**fields, seed=seed)
        return _shared_prefix(told, seed)
    except OSError as error:
        raise _fail("workload.file", f"{error.filename}: {error.strerror}", "name a readable file") from None
    except ValueError as error:
        raise _fail("workload", _in_camel_case(str(error))) from None


def _trace(path: Path, options: TraceOptions) -> Workload:
    if is_recording(path):
        entries, fault = read_recording(path)
        played = play(entries, path.name, options)
        played.note = fault
        return played
    return read_trace(path, options)


def _shared_prefix(told: SharedPrefixFile, seed: int) -> Workload:
    data = SharedPrefix(
        told.num_groups, told.num_prompts_per_group, told.system_prompt_len, told.question_len,
        told.output_len, told.inflation,
    )  # fmt: skip
    if told.stages:
        stages = tuple(Stage(stage.rate, stage.duration_s, stage.interval_s) for stage in told.stages)
        return ladder(data, stages, seed)
    if told.concurrency < 1 or told.num_requests < 1:
        raise ValueError("shared-prefix needs stages, or concurrency and numRequests of at least 1")
    return closed_loop(data, requests=told.num_requests, concurrency=told.concurrency, seed=seed)
