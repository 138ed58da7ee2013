"""Settings of the logs; sections of `Settings`."""

from dataclasses import dataclass, field

from epp.config.leaf import rules

__all__ = ["AccessLogSettings", "LogSettings"]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The process log."""

    level: str = field(
        default="info",
        metadata=rules("Least severity that is logged.", choices=("debug", "info", "warning", "error")),
    )
    format: str = field(
        default="auto",
        metadata=rules(
            "Shape of the process log and the access log; auto is human on a terminal, else json.",
            choices=("auto", "json", "human"),
        ),
    )


@dataclass(frozen=True, slots=True)
class AccessLogSettings:
    """The access log: one line a request."""

    enabled: bool = field(default=True, metadata=rules("Write one line a request."))
    file: str | None = field(
        default=None, metadata=rules("File that gets the lines.", absent="standard output")
    )
    prefix: bool = field(
        default=False,
        metadata=rules(
            "Add arrival time, token counts and a hash each 512 prompt tokens: the simulator's input."
        ),
    )
