"""How long a step and a transfer take: a port, and two models behind it."""

from dataclasses import dataclass, fields, replace
from typing import Protocol, Self

import msgspec

__all__ = ["KernelLatency", "LatencyProfile", "LinearLatency", "StepLatency", "StepLoad"]


class StepLoad(msgspec.Struct, frozen=True):
    """What one step computes, in the terms that a latency profile needs.

    Attributes:
        computed_tokens: tokens that pass through the model, of prefills and decodes together.
        prefill_pairs: sum over prefill chunks of c * (p + c/2): c tokens of the chunk, p tokens before it.
        decodes: sequences that compute one token each.
        decode_context_tokens: tokens that those sequences attend to.
    """

    computed_tokens: int
    prefill_pairs: float
    decodes: int
    decode_context_tokens: int


class LatencyProfile(Protocol):
    """Times of one model on one kind of GPU."""

    def step_s(self, load: StepLoad) -> float:
        """Seconds that a step takes."""
        ...

    def load_s(self, size_bytes: int) -> float:
        """Seconds that a transfer of `size_bytes` from the CPU tier takes on an idle link."""
        ...


class StepLatency(LatencyProfile, Protocol):
    """Times that may be changed: those of a simulated fleet."""

    def scaled(self, factor: float) -> Self:
        """Steps that take `factor` times as long; transfers stay."""
        ...

    def with_overhead(self, extra_s: float) -> Self:
        """Steps that take so much longer."""
        ...

    def with_link(self, bytes_per_s: float, latency_s: float | None = None) -> Self:
        """Another link to the CPU tier."""
        ...


@dataclass(frozen=True, slots=True)
class LinearLatency:
    """step = base + token * m + pair * prefill pairs + context * tokens that decodes attend to.

    The defaults resemble Llama-3.1-8B in bf16 on one H100: 16 GB of weights read in 6 ms, 27 µs a token
    (16 GFLOP at 60 % of 989 TFLOP/s), attention of 0.52 MFLOP a pair at 720 TFLOP/s, 128 KiB of keys and
    values a token at 2.7 TB/s, a link of 40 GB/s with 5 ms a transfer.
    """

    base_s: float = 0.006
    token_s: float = 27e-6
    pair_s: float = 0.73e-9
    context_s: float = 48e-9
    link_bytes_per_s: float = 40e9
    link_latency_s: float = 0.005

    def __post_init__(self) -> None:
        for name in ("base_s", "token_s", "pair_s", "context_s", "link_latency_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.link_bytes_per_s <= 0:
            raise ValueError(f"link_bytes_per_s must be positive, got {self.link_bytes_per_s}")

    def step_s(self, load: StepLoad) -> float:
        """Seconds that a step takes."""
        return (
            self.base_s
            + self.token_s * load.computed_tokens
            + self.pair_s * load.prefill_pairs
            + self.context_s * load.decode_context_tokens
        )

    def load_s(self, size_bytes: int) -> float:
        """Seconds that a transfer of `size_bytes` from the CPU tier takes on an idle link."""
        return self.link_latency_s + size_bytes / self.link_bytes_per_s


@dataclass(frozen=True, slots=True)
class KernelLatency:
    """Times composed from kernels: reading weights or computing, whichever is longer, plus attention.

    step = overhead + max(read + read_token * m, compute + compute_token * m) + pair * prefill pairs
           + (decode, if any sequence decodes) + context * tokens that decodes attend to

    Attributes:
        overhead_s: of a step, whatever it computes.
        read_s, read_token_s: the step while reading the weights is what takes longest.
        compute_s, compute_token_s: the step while computing is.
        pair_s: attention of prefills, for each pair of tokens.
        decode_s, context_s: attention of decodes: once, and for each token attended to.
        link_bytes_per_s, link_latency_s: of a transfer from the CPU tier, for one GPU.
    """

    overhead_s: float
    read_s: float
    read_token_s: float
    compute_s: float
    compute_token_s: float
    pair_s: float
    decode_s: float
    context_s: float
    link_bytes_per_s: float = 40e9
    link_latency_s: float = 0.005

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self) if f.name != "link_bytes_per_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.link_bytes_per_s <= 0:
            raise ValueError(f"link_bytes_per_s must be positive, got {self.link_bytes_per_s}")

    def step_s(self, load: StepLoad) -> float:
        """Seconds that a step takes."""
        tokens = load.computed_tokens
        linear_s = max(
            self.read_s + self.read_token_s * tokens, self.compute_s + self.compute_token_s * tokens
        )
        decode_s = self.decode_s if load.decodes else 0.0
        return (
            self.overhead_s
            + linear_s
            + self.pair_s * load.prefill_pairs
            + decode_s
            + self.context_s * load.decode_context_tokens
        )

    def load_s(self, size_bytes: int) -> float:
        """Seconds that a transfer of `size_bytes` from the CPU tier takes on an idle link."""
        return self.link_latency_s + size_bytes / self.link_bytes_per_s

    def scaled(self, factor: float) -> "KernelLatency":
        """Steps that take `factor` times as long; transfers stay.

        Raises:
            ValueError: the factor is not positive.
        """
        if factor <= 0:
            raise ValueError(f"the factor must be positive, got {factor:g}")
        steps = {f.name: getattr(self, f.name) * factor for f in fields(self) if "link" not in f.name}
        return replace(self, **steps)

    def with_overhead(self, extra_s: float) -> "KernelLatency":
        """Steps that take so much longer."""
        return replace(self, overhead_s=self.overhead_s + extra_s)

    def with_link(self, bytes_per_s: float, latency_s: float | None = None) -> "KernelLatency":
        """Another link to the CPU tier."""
        latency_s = self.link_latency_s if latency_s is None else latency_s
        return replace(self, link_bytes_per_s=bytes_per_s, link_latency_s=latency_s)
