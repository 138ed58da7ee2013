"""Settings for pages in browsers; a section of `Settings`."""

from dataclasses import dataclass, field

from epp.config.leaf import rules
from epp.config.web_origin import WebOrigin

__all__ = ["CorsSettings"]


@dataclass(frozen=True, slots=True)
class CorsSettings:
    """Pages of other origins, which a browser lets read an answer only if it allows them (CORS)."""

    allowed_origins: tuple[WebOrigin, ...] = field(
        default=(),
        metadata=rules(
            "Origin of pages that may read answers, such as https://chat.example; `*` is any. Repeatable.",
            absent="what the endpoints say of answers of theirs",
        ),
    )
