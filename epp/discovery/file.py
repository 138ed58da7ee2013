"""Endpoints that a file lists."""

import asyncio
from collections.abc import Callable, Sequence

from epp.discovery.source import Pause, Sink
from epp.discovery.watched_file import FileProblemError, WatchedFile
from epp.endpoints.types import EndpointSpec
from epp.errors import ConfigError

__all__ = ["FileSource"]

Parse = Callable[[str], Sequence[EndpointSpec]]
"""Reads the file's text, or raises ConfigError."""


class FileSource:
    """Follows a file; one that cannot be read, or is wrong, leaves the endpoints as they were."""

    def __init__(
        self, file: WatchedFile, parse: Parse, *, pause: Pause, interval_s: float, watch: bool = True
    ) -> None:
        """With `watch` off the file is read until that succeeds once."""
        self.name = f"file {file.path}" if watch else f"file {file.path}, read once"
        self._file = file
        self._parse = parse
        self._pause = pause
        self._interval_s = interval_s
        self._watch = watch

    async def run(self, sink: Sink) -> None:
        """Look each interval, and at once when the pause is cut short."""
        at_once = False
        while not await self._look(sink, at_once=at_once) or self._watch:
            at_once = await self._pause(self._interval_s)

    async def _look(self, sink: Sink, *, at_once: bool) -> bool:
        """One look; True when it told of endpoints."""
        try:
            content = await self._file.look(at_once=at_once)
            if content is None:
                return False
            specs = await asyncio.to_thread(self._read, content)
        except FileProblemError as error:
            sink.fail(str(error))
            return False
        except ConfigError as error:
            sink.fail("; ".join(str(problem) for problem in error.problems))
            return False
        sink.publish(specs)
        return True

    def _read(self, content: bytes) -> Sequence[EndpointSpec]:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise FileProblemError(f"{self._file.path} is not UTF-8") from None
        return self._parse(text)
