"""What a simulated server is told at its start."""

from dataclasses import dataclass, field

from epp.engine import EngineConfig, LatencyProfile, LinearLatency

__all__ = ["DEFAULT_MODEL", "SimSettings"]

DEFAULT_MODEL = "sim/llama-8b"
LARGEST_DEFAULT_CONTEXT_TOKENS = 131_072
_MOST_BLOCKS = 10_000_000  # each takes memory, from the start; 160 million tokens of 16 a block


@dataclass(frozen=True, slots=True)
class SimSettings:
    """Settings of one simulated server; the names are those of the flags.

    Attributes:
        model: name it serves.
        lora: names of adapters on top of it.
        host: address it listens on.
        port: 0 takes a free one.
        gpu_blocks: blocks of the GPU tier.
        cpu_blocks: blocks of the CPU tier; 0 means there is none.
        block_size: tokens in a block.
        max_model_len: longest sequence in tokens; None means what the GPU tier can hold, at most 131,072.
        max_num_seqs: sequences that run at once.
        max_num_batched_tokens: tokens computed in one step.
        max_num_queued_reqs: sequences in flight, waiting or running, above which it answers 503; None: no
            limit.
        time_scale: model seconds in one real second.
        stream_interval: tokens in one chunk of a stream.
        latency: how long steps and transfers take.
        kv_bytes_per_token: keys and values of a token on one GPU: what transfers move.
        cpu_unit_blocks: a hit in the CPU tier ends at a multiple of so many blocks.
        cpu_synchronous: transfers from the CPU tier are part of a step.
        api_s, api_token_s: model seconds from a request's arrival to the engine's queue, once and for each
            prompt token; what reading it really takes is part of them.
        answer_tokens: shortest and longest answer that ends by itself.
        shutdown_timeout_s: how long requests in flight may go on after SIGTERM; 0 cuts them.
        keep_alive_s: how long an idle connection stays open.
        request_id_headers: echo `x-request-id`.
        prompt_tokens_details: tell cached tokens in `usage`.
        report_cpu_tier: export `vllm:kv_offload_config_info`, as vLLM does since 0.33.
        dev_mode: serve `/reset_prefix_cache`, `/sleep`, `/wake_up` and `/is_sleeping`.
        runtime_lora: serve `/v1/load_lora_adapter` and `/v1/unload_lora_adapter`.
        record_requests: how many of the latest inference requests to keep for a test to look at, failed ones
            too.
    """

    model: str = DEFAULT_MODEL
    lora: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 0
    gpu_blocks: int = 4096
    cpu_blocks: int = 0
    block_size: int = 16
    max_model_len: int | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_num_queued_reqs: int | None = None
    time_scale: float = 1.0
    stream_interval: int = 1
    latency: LatencyProfile = field(default_factory=LinearLatency)
    kv_bytes_per_token: int = 131_072
    cpu_unit_blocks: int = 1
    cpu_synchronous: bool = False
    api_s: float = 0.0
    api_token_s: float = 0.0
    answer_tokens: tuple[int, int] = (64, 320)
    shutdown_timeout_s: float = 0.0
    keep_alive_s: float = 5.0
    request_id_headers: bool = False
    prompt_tokens_details: bool = True
    report_cpu_tier: bool = False
    dev_mode: bool = False
    runtime_lora: bool = False
    record_requests: int = 0

    def __post_init__(self) -> None:
        for name, blocks in (("gpu_blocks", self.gpu_blocks), ("cpu_blocks", self.cpu_blocks)):
            if blocks > _MOST_BLOCKS:
                raise ValueError(f"{name} must be at most {_MOST_BLOCKS}, got {blocks}")
        capacity = self.engine_config().capacity_tokens
        if self.max_model_len is not None and not 2 <= self.max_model_len <= capacity:
            raise ValueError(
                f"max_model_len must lie between 2 and the {capacity} tokens of the GPU tier, "
                f"got {self.max_model_len}"
            )
        if self.time_scale <= 0:
            raise ValueError(f"time_scale must be positive, got {self.time_scale}")
        if self.api_s < 0 or self.api_token_s < 0:
            raise ValueError(f"api times must not be negative, got {self.api_s} and {self.api_token_s}")
        if self.stream_interval < 1:
            raise ValueError(f"stream_interval must be at least 1, got {self.stream_interval}")
        if not 1 <= self.answer_tokens[0] <= self.answer_tokens[1]:
            raise ValueError(f"answer_tokens must be a range of positive lengths, got {self.answer_tokens}")

    @property
    def context_tokens(self) -> int:
        """Longest sequence it serves."""
        if self.max_model_len is not None:
            return self.max_model_len
        return min(self.engine_config().capacity_tokens, LARGEST_DEFAULT_CONTEXT_TOKENS)

    def engine_config(self) -> EngineConfig:
        """The part that concerns the engine; raises ValueError when a size is out of range."""
        return EngineConfig(
            gpu_blocks=self.gpu_blocks,
            cpu_blocks=self.cpu_blocks,
            block_tokens=self.block_size,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            kv_bytes_per_token=self.kv_bytes_per_token,
            cpu_unit_blocks=self.cpu_unit_blocks,
            cpu_synchronous=self.cpu_synchronous,
        )
