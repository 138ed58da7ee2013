"""Everything that decisions are made from."""

from dataclasses import dataclass, field

from epp.director.candidates import Candidates
from epp.director.chains import BlockSize, ViewGroups, block_sizes, view_groups
from epp.director.claims import Claims
from epp.director.shadow import Shadow
from epp.director.tokens import TokenRatios
from epp.director.views import TierView
from epp.endpoints.health import PassiveHealth
from epp.endpoints.ledger import Ledger
from epp.endpoints.models import ModelCatalog
from epp.endpoints.slow_start import SlowStart
from epp.endpoints.table import EndpointTable
from epp.flow.admission import Admission
from epp.prefix import PrefixIndex
from epp.scheduling.contracts import Decision
from epp.scheduling.scheduler import Scheduler

__all__ = ["State"]


@dataclass(frozen=True, slots=True)
class State:
    """What the director decides from.

    Another configuration makes another state, which shares everything but what it makes: a request keeps the
    state with which it began, to its end.

    Attributes:
        views: what the scheduler reads of the index.
        scheduler, admission: built from the configuration.
        candidates: whom the scheduler may choose from, admission regarded.
        shadow: what decides beside it and is not obeyed; None: nothing does.
        claims: the writer of ledger and index, for the views of both.
        block_sizes: what prompts are hashed in, for the views of both.
        view_groups: `views` as they are looked up.
    """

    table: EndpointTable
    catalog: ModelCatalog
    health: PassiveHealth
    slow_start: SlowStart
    ledger: Ledger
    index: PrefixIndex
    ratios: TokenRatios
    views: tuple[TierView, ...]
    scheduler: Scheduler
    admission: Admission
    candidates: Candidates
    shadow: Shadow | None
    claims: Claims
    block_sizes: tuple[BlockSize, ...] = field(init=False)
    view_groups: ViewGroups = field(init=False)

    def __post_init__(self) -> None:
        """Work out what views ask of every request once."""
        object.__setattr__(self, "block_sizes", block_sizes(self.views, self.shadow_views))
        object.__setattr__(self, "view_groups", view_groups(self.views))

    def on_first_token(self, decision: Decision, now: float) -> None:
        """The first token of an answer came: plugins that learn are told, the shadow's too."""
        self.scheduler.on_first_token(decision, now)
        if self.shadow is not None:
            self.shadow.on_first_token(decision.cycle, now)

    def on_ended(self, decision: Decision, now: float, output_tokens: int | None) -> None:
        """A request has ended: plugins that learn are told, the shadow's too."""
        self.scheduler.on_ended(decision, now, output_tokens)
        if self.shadow is not None:
            self.shadow.on_ended(decision.cycle, now, output_tokens)

    @property
    def shadow_views(self) -> tuple[TierView, ...]:
        """The views that only the shadow reads."""
        return self.shadow.views if self.shadow is not None else ()
