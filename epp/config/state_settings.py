"""Settings of what outlives the process; a section of `Settings`."""

from dataclasses import dataclass, field

from epp.config.leaf import rules

__all__ = ["StateSettings"]


@dataclass(frozen=True, slots=True)
class StateSettings:
    """What was learned, kept for the next process."""

    dir: str | None = field(
        default=None,
        metadata=rules(
            "Directory in which index and learned ratios are kept for the next process, one router a "
            "directory.",
            absent="nothing is kept",
        ),
    )
    interval_s: float = field(
        default=60.0,
        metadata=rules("Time between two saves; there is one at the end too. 0: only that one."),
    )
    max_age_s: float = field(
        default=600.0, metadata=rules("Oldest state that is taken over at the start.", minimum=1.0)
    )
