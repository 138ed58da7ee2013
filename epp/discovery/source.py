"""What a discovery source is."""

from collections.abc import Callable
from typing import Protocol

from epp.endpoints.types import EndpointSpec

__all__ = ["Publish", "Source"]

Publish = Callable[[tuple[EndpointSpec, ...]], None]


class Source(Protocol):
    """Knows which endpoints there are."""

    async def run(self, publish: Publish) -> None:
        """Call `publish` with the complete set at once and whenever it changes, until cancelled.

        Each call replaces all that was published before. A source whose set cannot change returns.
        """
        ...
