"""Follows the configuration files: a changed one is applied, a faulty one leaves in effect what was."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from epp.app.files import MAX_CONFIG_BYTES, Configurations, parse_configuration
from epp.config import EffectiveConfig, Settings
from epp.discovery.discovery import SourceError
from epp.discovery.source import Pause
from epp.discovery.watched_file import FileProblemError, WatchedFile
from epp.errors import ConfigError

__all__ = ["ConfigReload", "ReloadReport"]

logger = logging.getLogger("epp.config")

Apply = Callable[[Configurations], Awaitable[None]]
"""Puts configurations in effect; raises ConfigError or SourceError, and has changed nothing then."""
_Role = Literal["live", "shadow"]


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """How reloading goes: counts by result (`success`, `failure`), and what is wrong with a file, by path."""

    results: Mapping[str, int]
    problems: Mapping[str, str]


@dataclass(slots=True)
class _Followed:
    role: _Role
    file: WatchedFile
    problem: str | None = None


class ConfigReload:
    """Looks at the files of the live and the shadow configuration; `apply` gets both when one has changed."""

    def __init__(self, settings: Settings, current: Configurations, apply: Apply, pause: Pause) -> None:
        """`current` is in effect. With `configInterval` 0 only a pause that is cut short leads to a look."""
        paths: dict[_Role, str | None] = {"live": settings.config, "shadow": settings.shadow_config}
        self._files = [_Followed(role, _watched(path)) for role, path in paths.items() if _can_follow(path)]
        self._current = current
        self._apply = apply
        self._pause = pause
        self._interval_s = settings.config_interval_s or None
        self._successes = 0
        self._failures = 0

    @property
    def follows(self) -> bool:
        """There is a file to look at."""
        return bool(self._files)

    def report(self) -> ReloadReport:
        """How it goes."""
        results = {"success": self._successes, "failure": self._failures}
        return ReloadReport(results, {f.file.path: f.problem for f in self._files if f.problem is not None})

    async def run(self) -> None:
        """Look each interval, and at once when the pause is cut short; until cancelled."""
        at_once = False
        while True:
            for followed in self._files:
                await self._look(followed, at_once=at_once)
            at_once = await self._pause(self._interval_s)

    async def _look(self, followed: _Followed, *, at_once: bool) -> None:
        try:
            content = await followed.file.look(at_once=at_once)
            if content is not None:
                await self._take(followed, content)
        except FileProblemError as error:
            self._failed(followed, str(error))
        except ConfigError as error:
            self._failed(followed, "; ".join(str(problem) for problem in error.problems))
        except SourceError as error:
            followed.file.forget()  # what it names may be there the next time
            self._failed(followed, str(error))
        except Exception as error:
            logger.exception("reloading %s failed", followed.file.path)
            self._failed(followed, repr(error))

    async def _take(self, followed: _Followed, content: bytes) -> None:
        """Another content: apply it, unless it is what is in effect."""
        config = await asyncio.to_thread(parse_configuration, content, followed.file.path)
        wanted = _with(self._current, followed.role, config)
        if wanted == self._current and followed.problem is None:
            return
        await self._apply(wanted)
        self._current = wanted
        followed.problem = None
        self._successes += 1
        extra = {"file": followed.file.path, "role": followed.role, "config_hash": config.hash}
        logger.info("configuration reloaded", extra=extra)

    def _failed(self, followed: _Followed, problem: str) -> None:
        """Say each problem once, however often it is met."""
        if problem != followed.problem:
            followed.problem = problem
            self._failures += 1
            extra = {"file": followed.file.path, "role": followed.role}
            logger.error("configuration not reloaded, the last good one stays: %s", problem, extra=extra)


def _can_follow(path: str | None) -> bool:
    """Not pipes, such as a shell's process substitution: they can be read once only."""
    return path is not None and Path(path).is_file()


def _watched(path: str | None) -> WatchedFile:
    return WatchedFile(path or "", MAX_CONFIG_BYTES)


def _with(current: Configurations, role: _Role, config: EffectiveConfig) -> Configurations:
    return replace(current, live=config) if role == "live" else replace(current, shadow=config)
