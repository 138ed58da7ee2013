"""Where recorded calls put their events: encoded at once, handed on in pieces."""

import itertools
import secrets
from collections.abc import Callable
from typing import Final

from epp.endpoints.types import EndpointMetrics
from epp.recording.events import Event, Header, Metrics, Stopped
from epp.recording.folding import Folder
from epp.recording.framing import add_entry

__all__ = ["Tape"]

_FULL_BYTES: Final = 1 << 16
_LONGEST_S: Final = 1.0  # that an event waits for others
_FIELDS: Final = EndpointMetrics.__struct_fields__


class Tape:
    """Encodes events; `sink` gets them, and answers False when it takes no more.

    Attributes:
        going: events are still taken.
        key: of digests, by which equal texts are seen to be equal; it is written nowhere.
        folder: what shortens chains.
    """

    def __init__(self, header: Header, sink: Callable[[bytearray], bool]) -> None:
        self.going = True
        self.key = secrets.token_bytes(16)
        self.folder = Folder()
        self._sink = sink
        self._numbers = itertools.count()
        self._buffer = bytearray()
        self._flushed = 0.0
        self._metrics: dict[str, EndpointMetrics] = {}
        add_entry(self._buffer, header)
        self._flush()

    def number(self) -> int:
        """That of another request."""
        return next(self._numbers)

    def write(self, event: Event) -> None:
        """Take an event."""
        if not self.going:
            return
        add_entry(self._buffer, event)
        if len(self._buffer) >= _FULL_BYTES:
            self._flush()

    def scraped(self, address: str, incarnation: int, metrics: EndpointMetrics, now: float) -> None:
        """Take a scrape, as far as it differs from the endpoint's last one."""
        last = self._metrics.get(address) or EndpointMetrics()
        self._metrics[address] = metrics
        changed = {
            place: value
            for place, field in enumerate(_FIELDS)
            if (value := getattr(metrics, field)) != getattr(last, field)
        }
        self.write(Metrics(now, address, incarnation, changed))

    def keep_only(self, addresses: frozenset[str]) -> None:
        """These are all endpoints that there are: forget what others were scraped."""
        self._metrics = {a: metrics for a, metrics in self._metrics.items() if a in addresses}

    def passed(self, now: float) -> None:
        """Time passes: nothing waits for long."""
        if now - self._flushed >= _LONGEST_S:
            self._flushed = now
            self._flush()

    def stop(self, why: str) -> None:
        """Nothing comes after this."""
        self.write(Stopped(why))
        self._flush()
        self.going = False

    def _flush(self) -> None:
        if self._buffer and self.going:
            self.going = self._sink(self._buffer)
            self._buffer = bytearray()
