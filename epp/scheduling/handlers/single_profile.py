"""single-profile-handler."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from epp.scheduling.contracts import BuildContext, Cycle, ProfileResult
from epp.scheduling.registry import NoParameters

__all__ = ["SingleProfileHandler"]


class SingleProfileHandler:
    """Runs the one profile once; its order is the decision."""

    type: ClassVar[str] = "single-profile-handler"

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def build(cls, name: str, _parameters: NoParameters, _context: BuildContext) -> "SingleProfileHandler":
        """Factory for the registry."""
        return cls(name)

    def pick(
        self, _cycle: Cycle, profiles: Sequence[str], done: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        """The profile, then nothing."""
        return () if done else profiles[:1]

    def primary(self, done: Mapping[str, ProfileResult]) -> str:
        """The profile that ran."""
        return next(iter(done))
