"""The state of one request inside the director."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from epp.director.chains import PromptChains
from epp.director.exclusions import NOBODY_RULED_OUT, RuledOut
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


class Exchange(msgspec.Struct, eq=False):
    """One request; front doors read `head`, `target` and `executions` and hand it back to the director.

    `state` is what the whole of the request is decided from.
    """

    head: RequestHead
    arrived: float
    state: State
    priority: int = 0
    number: int = -1  # set by a recording alone
    subset: frozenset[str] | None = None  # addresses and hosts that a gateway allows
    body_bytes: int = 0
    request: InferenceRequest | None = None
    rewrite: Rewrite | None = None
    rewritten: RewrittenBody | None = None  # until the front door takes it
    resolution: Resolution | None = None
    chains: PromptChains | None = None
    prompt_tokens: int = 0
    text_bytes: int = 0
    block_tokens: Mapping[int, float] = {}
    matches: dict[str, PrefixMatch] = {}
    decision: Decision | None = None
    ruled_out: RuledOut = NOBODY_RULED_OUT
    order: Iterator[Endpoint] = iter(())
    target: Target | None = None
    hold: Hold | None = None
    predicted: dict[Tier, int] = {}
    tried: set[str] = set()
    counted_as: RunningKey | None = None
    attempts: int = 0
    executions: int = 0
    failures: list[Failure] = []
    ejected: list[str] = []
    status: int | None = None
    first_byte_at: float | None = None
    prepare_s: float = 0.0
    decision_s: float | None = None
    ended: bool = False
