"""What goes into the engine and what comes out of it."""

import enum
from dataclasses import dataclass

import msgspec

__all__ = [
    "EngineConfig",
    "EngineCounters",
    "EngineGauges",
    "EngineRequest",
    "FinishReason",
    "StepOutput",
    "StepResult",
    "Timeline",
]


class FinishReason(enum.StrEnum):
    """Why a sequence ended by itself."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Size and limits of one server.

    Attributes:
        gpu_blocks: blocks of the GPU tier. One of them is the null block, as in vLLM, so `gpu_blocks - 1`
            can hold tokens.
        cpu_blocks: blocks of the CPU tier; 0 means there is none.
        block_tokens: tokens in a block; a hit is a multiple of it.
        max_num_seqs: sequences in the running batch at most.
        max_num_batched_tokens: tokens computed in one step at most.
        kv_bytes_per_token: size of a token's keys and values on one GPU (131,072 is Llama-3.1-8B in bf16).
        cpu_unit_blocks: a hit in the CPU tier ends at a multiple of so many blocks (LMCache: its chunk of 256
            tokens).
        cpu_synchronous: transfers from the CPU tier are part of the step that admits the sequence (LMCache)
            instead of being waited for aside (native offload).
    """

    gpu_blocks: int = 4096
    cpu_blocks: int = 0
    block_tokens: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    kv_bytes_per_token: int = 131_072
    cpu_unit_blocks: int = 1
    cpu_synchronous: bool = False

    def __post_init__(self) -> None:
        if self.gpu_blocks < 2:
            raise ValueError(f"gpu_blocks must be at least 2 (one is the null block), got {self.gpu_blocks}")
        if self.cpu_blocks < 0:
            raise ValueError(f"cpu_blocks must not be negative, got {self.cpu_blocks}")
        for name in (
            "block_tokens",
            "max_num_seqs",
            "max_num_batched_tokens",
            "kv_bytes_per_token",
            "cpu_unit_blocks",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    @property
    def usable_gpu_blocks(self) -> int:
        """Blocks of the GPU tier that can hold tokens."""
        return self.gpu_blocks - 1

    @property
    def capacity_tokens(self) -> int:
        """Tokens that the usable blocks hold: the longest sequence that can ever run."""
        return self.usable_gpu_blocks * self.block_tokens


class EngineRequest(msgspec.Struct, frozen=True):
    """One sequence to compute; what it will generate is decided by the caller.

    Attributes:
        request_id: unique among the sequences that are live.
        prompt_tokens: length of the prompt, at least 1.
        output_tokens: how many tokens it generates before it ends, at least 1.
        keys: chained keys of the full blocks of prompt and output (`block_keys`), from the first block on.
            Blocks beyond the keys are anonymous: they occupy room and are never found again.
        finish_reason: how it ends.
    """

    request_id: str
    prompt_tokens: int
    output_tokens: int
    keys: tuple[int, ...] = ()
    finish_reason: FinishReason = FinishReason.LENGTH

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1:
            raise ValueError(f"prompt_tokens must be at least 1, got {self.prompt_tokens}")
        if self.output_tokens < 1:
            raise ValueError(f"output_tokens must be at least 1, got {self.output_tokens}")

    @property
    def kv_tokens(self) -> int:
        """Tokens whose keys and values are computed; the last generated token's never are."""
        return self.prompt_tokens + self.output_tokens - 1


class Timeline(msgspec.Struct, frozen=True):
    """What happened to a sequence so far; times are the engine's, in seconds.

    Attributes:
        prompt_tokens: length of its prompt.
        generated_tokens: tokens that came out.
        arrival_s: when it was submitted.
        scheduled_s: when its first step began.
        first_token_s: when its first token came out.
        last_token_s: when its latest token came out.
        gpu_hit_tokens: prompt tokens found in the GPU tier.
        cpu_hit_tokens: prompt tokens found in the CPU tier beyond those.
        preemptions: how often its blocks were taken away.
    """

    prompt_tokens: int
    generated_tokens: int
    arrival_s: float
    scheduled_s: float
    first_token_s: float
    last_token_s: float
    gpu_hit_tokens: int
    cpu_hit_tokens: int
    preemptions: int


class StepOutput(msgspec.Struct, frozen=True):
    """Tokens that a step gave to one sequence.

    Attributes:
        request_id: which sequence.
        new_tokens: how many.
        elapsed_s: seconds since its previous token; for the first one, since it was submitted.
        finish_reason: None while it goes on.
        timeline: present with the first token and with the last.
    """

    request_id: str
    new_tokens: int
    elapsed_s: float
    finish_reason: FinishReason | None = None
    timeline: Timeline | None = None


class StepResult(msgspec.Struct, frozen=True):
    """One step: how long it takes, and what is known when it has ended.

    `duration_s` is None when there was nothing to compute; then `wake_s` is the time at which a transfer from
    the CPU tier ends and a step becomes possible, or None when only a new request can change anything.
    `computed_tokens` is the size of the batch in tokens.
    """

    duration_s: float | None
    outputs: tuple[StepOutput, ...] = ()
    computed_tokens: int = 0
    wake_s: float | None = None


class EngineGauges(msgspec.Struct, frozen=True):
    """State of the engine at one moment.

    `waiting` need room or a place in the batch; `loading` wait only for a transfer from the CPU tier (vLLM
    calls them deferred). `kv_usage` counts blocks of live sequences, so a warm idle engine reports 0.
    """

    running: int
    waiting: int
    loading: int
    kv_usage: float


@dataclass(slots=True)
class EngineCounters:
    """What the engine has done since it started; tokens unless the name says otherwise.

    Prefix queries and hits are counted when a sequence is first admitted, prompt tokens and their sources
    when its first token comes out. A sequence computed again after a preemption is not counted twice.
    """

    prefix_queries: int = 0
    prefix_hits: int = 0
    external_queries: int = 0
    external_hits: int = 0
    prompt: int = 0
    prompt_gpu_hit: int = 0
    prompt_cpu_hit: int = 0
    generation: int = 0
    preemptions: int = 0
    finished_stop: int = 0
    finished_length: int = 0
    loads: int = 0
    load_bytes: int = 0
    load_s: float = 0.0
    stores: int = 0
    store_bytes: int = 0
    stores_skipped: int = 0

    def count_lookup(self, prompt_tokens: int, gpu_hit_tokens: int, cpu_hit_tokens: int | None) -> None:
        """A sequence was looked up in the tiers; None: there is no CPU tier."""
        self.prefix_queries += prompt_tokens
        self.prefix_hits += gpu_hit_tokens
        if cpu_hit_tokens is not None:
            self.external_queries += prompt_tokens - gpu_hit_tokens
            self.external_hits += cpu_hit_tokens

    def count_prompt(self, prompt_tokens: int, gpu_hit_tokens: int, cpu_hit_tokens: int) -> None:
        """The first token of a prompt came out."""
        self.prompt += prompt_tokens
        self.prompt_gpu_hit += gpu_hit_tokens
        self.prompt_cpu_hit += cpu_hit_tokens

    def count_end(self, reason: FinishReason) -> None:
        """A sequence ended."""
        if reason is FinishReason.STOP:
            self.finished_stop += 1
        else:
            self.finished_length += 1

    @property
    def prompt_computed(self) -> int:
        """Prompt tokens that no tier held."""
        return self.prompt - self.prompt_cached

    @property
    def prompt_cached(self) -> int:
        """Prompt tokens that a tier held."""
        return self.prompt_gpu_hit + self.prompt_cpu_hit
