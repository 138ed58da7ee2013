"""One live sequence: what of it is computed, and which blocks it holds."""

from dataclasses import dataclass, field

from epp.engine.types import EngineRequest, Timeline

__all__ = ["Sequence"]


@dataclass(slots=True, eq=False)
class Sequence:
    """A request on its way through the engine.

    Attributes:
        request: what was submitted.
        arrival_s: when.
        prompt_tokens: length of its prompt.
        keys: number of its keys.
        generated_tokens: tokens that came out so far.
        computed_tokens: tokens of prompt and output whose keys and values are in `blocks`.
        blocks: GPU blocks it references, in order.
        registered_blocks: how many of them are matchable.
        stored_blocks: prompt blocks that were offered to the CPU tier.
        ready_s: when its transfer from the CPU tier ends; None without one.
        admitted: it was looked up in the tiers once; a preemption does not change that.
    """

    request: EngineRequest
    arrival_s: float
    prompt_tokens: int = field(init=False)
    keys: int = field(init=False)
    generated_tokens: int = 0
    computed_tokens: int = 0
    blocks: list[int] = field(default_factory=list)
    registered_blocks: int = 0
    stored_blocks: int = 0
    ready_s: float | None = None
    admitted: bool = False
    scheduled_s: float = 0.0
    first_token_s: float = 0.0
    last_token_s: float = 0.0
    gpu_hit_tokens: int = 0
    cpu_hit_tokens: int = 0
    preemptions: int = 0

    def __post_init__(self) -> None:
        self.prompt_tokens = self.request.prompt_tokens
        self.keys = len(self.request.keys)

    @property
    def known_tokens(self) -> int:
        """Tokens of the prompt and those generated so far."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def remaining_tokens(self) -> int:
        """Known tokens that are still to be computed; 1 while decoding."""
        return self.prompt_tokens + self.generated_tokens - self.computed_tokens

    def matchable_keys(self, block_tokens: int) -> tuple[int, ...]:
        """Keys a lookup may use: the last known token is always computed, whatever the tiers hold."""
        return self.request.keys[: (self.known_tokens - 1) // block_tokens]

    def timeline(self) -> Timeline:
        """What happened to it so far."""
        return Timeline(
            prompt_tokens=self.request.prompt_tokens,
            generated_tokens=self.generated_tokens,
            arrival_s=self.arrival_s,
            scheduled_s=self.scheduled_s,
            first_token_s=self.first_token_s,
            last_token_s=self.last_token_s,
            gpu_hit_tokens=self.gpu_hit_tokens,
            cpu_hit_tokens=self.cpu_hit_tokens,
            preemptions=self.preemptions,
        )
