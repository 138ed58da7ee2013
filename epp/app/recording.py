"""A recording of what happens to the core, from its start on."""

import logging
import secrets
from dataclasses import replace
from pathlib import Path

from epp import __version__
from epp.app.files import Configurations
from epp.compose import CoreOptions
from epp.config import EffectiveConfig, Settings
from epp.errors import ConfigError, ConfigProblem
from epp.recording.events import FORMAT, Configuration, Configured, Header, Options
from epp.recording.file import RecordingFile
from epp.recording.tape import Tape

__all__ = ["Recording", "recorded_options"]

logger = logging.getLogger("epp.recording")


def recorded_options(settings: Settings, options: CoreOptions) -> CoreOptions:
    """With a seed that can be put on record, if that is wanted."""
    if settings.record is None or options.seed is not None:
        return options
    return replace(options, seed=secrets.randbits(32))


class Recording:
    """The tape, while one is wanted, and its file."""

    def __init__(
        self, settings: Settings, configurations: Configurations, options: CoreOptions, now: float
    ) -> None:
        """Nothing is recorded unless the settings name a file; `now` is in seconds since the epoch.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.tape: Tape | None = None
        self._file: RecordingFile | None = None
        if settings.record is not None:
            self._file = _open(settings.record, settings.record_max_bytes)
            self.tape = Tape(_header(configurations, options, now), self._file.put)
            logger.info("recording", extra={"file": settings.record})

    def configured(self, configurations: Configurations) -> None:
        """Others are in effect since the last event."""
        if self.tape is not None:
            shadow = configurations.shadow
            told = _configuration(configurations.live), None if shadow is None else _configuration(shadow)
            self.tape.write(Configured(*told))

    def stop(self) -> None:
        """The router has stopped: write what waits."""
        if self.tape is not None and self._file is not None:
            self.tape.stop("the router stopped")
            self._file.close()


def _open(path: str, max_bytes: int) -> RecordingFile:
    try:
        return RecordingFile(Path(path), max_bytes, _ended)
    except OSError as error:
        remedy = "name a file that epp may write to"
        problem = ConfigProblem("record", f"{path} cannot be opened: {error.strerror}", remedy)
        raise ConfigError([problem], "settings") from None


def _ended(why: str) -> None:
    logger.warning("the recording has ended early: %s", why)


def _header(configurations: Configurations, options: CoreOptions, created: float) -> Header:
    shadow = configurations.shadow
    return Header(
        format=FORMAT,
        version=__version__,
        created=created,
        options=Options(
            seed=options.seed or 0,
            retry=options.retry,
            limits=options.limits,
            health=options.health,
            slow_start_s=options.slow_start_s,
            staleness_s=options.staleness_s(),
            scrape_interval_s=options.scrape_interval_s,
        ),
        config=_configuration(configurations.live),
        shadow=None if shadow is None else _configuration(shadow),
    )


def _configuration(config: EffectiveConfig) -> Configuration:
    return Configuration(config.source, config.hash, config.text)
