"""The state of one request inside the director."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from epp.director.chains import PromptChains
from epp.director.exclusions import NOBODY_RULED_OUT
from epp.director.hold import Hold
from epp.director.running import RunningKey
from epp.director.state import State
from epp.director.types import Failure, RequestHead, Target
from epp.director.views import Tier
from epp.endpoints.models import Resolution
from epp.endpoints.types import Endpoint
from epp.request.rewrites import Rewrite
from epp.request.types import InferenceRequest
from epp.scheduling.contracts import Decision, PrefixMatch

__all__ = ["Exchange", "RewrittenBody"]

_WITHHELD: Final = frozenset({b"accept-encoding"})
_WITHHELD_DECODED: Final = _WITHHELD | {b"content-encoding"}


@dataclass(frozen=True, slots=True)
class RewrittenBody:
    """What is forwarded instead of the body that came; `decoded`: its content coding is undone."""

    body: bytes
    decoded: bool

    @property
    def withheld(self) -> frozenset[bytes]:
        """Headers that do not go with it: the answer must be readable, to put the client's name in."""
        return _WITHHELD_DECODED if self.decoded else _WITHHELD


class Exchange:
    """One request; front doors read `head`, `target` and `executions` and hand it back to the director."""

    __slots__ = (
        "arrived", "attempts", "block_tokens", "body_bytes", "chains", "counted_as", "decision",
        "decision_s", "ejected", "ended", "executions", "failures", "first_byte_at", "head", "hold",
        "matches", "number", "order", "predicted", "prepare_s", "priority", "prompt_tokens", "request",
        "resolution", "rewrite", "rewritten", "ruled_out", "state", "status", "subset", "target",
        "text_bytes", "tried",
    )  # fmt: skip
    number: int  # set by a recording alone

    def __init__(self, head: RequestHead, arrived: float, state: State, priority: int = 0) -> None:
        """`state` is what the whole of the request is decided from."""
        self.state = state
        self.head = head
        self.arrived = arrived
        self.priority = priority
        self.subset: frozenset[str] | None = None  # addresses and hosts that a gateway allows
        self.body_bytes = 0
        self.request: InferenceRequest | None = None
        self.rewrite: Rewrite | None = None
        self.rewritten: RewrittenBody | None = None  # until the front door takes it
        self.resolution: Resolution | None = None
        self.chains: PromptChains | None = None
        self.prompt_tokens = 0
        self.text_bytes = 0
        self.block_tokens: Mapping[int, float] = {}
        self.matches: dict[str, PrefixMatch] = {}
        self.decision: Decision | None = None
        self.ruled_out = NOBODY_RULED_OUT
        self.order: Iterator[Endpoint] = iter(())
        self.target: Target | None = None
        self.hold: Hold | None = None
        self.predicted: dict[Tier, int] = {}
        self.tried: set[str] = set()
        self.counted_as: RunningKey | None = None
        self.attempts = 0
        self.executions = 0
        self.failures: list[Failure] = []
        self.ejected: list[str] = []
        self.status: int | None = None
        self.first_byte_at: float | None = None
        self.prepare_s = 0.0
        self.decision_s: float | None = None
        self.ended = False
