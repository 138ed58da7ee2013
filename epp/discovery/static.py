"""Endpoints that are given at the start and never change."""

from collections.abc import Iterable

from epp.discovery.source import Sink
from epp.endpoints.spec import parse_endpoints
from epp.endpoints.types import EndpointSpec

__all__ = ["StaticSource"]


class StaticSource:
    """A fixed list, as given with `--endpoint`."""

    name = "endpoint"

    def __init__(self, specs: Iterable[EndpointSpec]) -> None:
        self.specs = tuple(specs)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "StaticSource":
        """From texts such as `http://10.0.0.1:8000,zone=a`.

        Raises:
            ValueError: one is malformed, or an address is given twice.
        """
        return cls(parse_endpoints(texts))

    async def run(self, sink: Sink) -> None:
        """Publish the list and return."""
        sink.publish(self.specs)
