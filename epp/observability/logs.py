"""The process log: one line an event, JSON or for people, with secrets cut out."""

import logging
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, TextIO

import msgspec

from epp.observability.timestamps import Timestamps

__all__ = ["RateLimitedLogger", "configure_logging", "redacted"]

_SERVER_LOGGERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "asyncio")
_CLIENT_LOGGERS: Final = ("httpx", "httpcore")  # a line for each request of ours, with its URL
_REDACTED: Final = "[redacted]"
_CONTENT_KEYS: Final = frozenset(
    {
        "authorization",
        "api_key",
        "body",
        "cookie",
        "headers",
        "key",
        "messages",
        "password",
        "prompt",
        "token",
    }
)
_SECRETS: Final = re.compile(
    r"""(?ix)
    ( \b(?:proxy-)?authorization \b (?!\.k8s\.io) \W{0,4} (?:(?:bearer|basic)\s+)?
    | \b(?:bearer|basic) \s+
    | \b(?:api[-_]?key|x-api-key|x-epp-admin-key|admin[-_]?key|endpoint[-_]?key|password|secret) \b \W{1,4}
    | ://[^/\s:@]*: (?=[^/\s@]+@)
    )
    [^\s"',;&@}\]]+
    """
)
_BARE_KEYS: Final = re.compile(r"\bsk-[A-Za-z0-9_-]{8,}")
_STANDARD: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "color_message"})


def redacted(text: str) -> str:
    """The text without what looks like a credential: bearer tokens, API keys, passwords in URLs."""
    return _BARE_KEYS.sub(_REDACTED, _SECRETS.sub(rf"\1{_REDACTED}", text))


def configure_logging(level: str, *, human: bool, stream: TextIO | None = None) -> logging.Handler:
    """Send the logs of epp and of the libraries it runs on to `stream` (standard error) from `level` on.

    `level` is debug, info, warning or error. Replaces the handlers that are there, and returns the new one.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_HumanFormatter() if human else _JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _SERVER_LOGGERS:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(logging.NOTSET)
    for name in _CLIENT_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    return handler


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    """Fields given with `extra=`; those that could hold content are cut."""
    given = ((name, value) for name, value in vars(record).items() if name not in _STANDARD)
    return {name: _REDACTED if name.lower() in _CONTENT_KEYS else _plain(value) for name, value in given}


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return redacted(str(value))


def _trace(record: logging.LogRecord) -> str | None:
    if not record.exc_info or record.exc_info[0] is None:
        return None
    return redacted("".join(traceback.format_exception(*record.exc_info)).rstrip())


class _JsonFormatter(logging.Formatter):
    """`{"ts", "level", "logger", "message", …extras, "trace"}` on one line."""

    def __init__(self) -> None:
        super().__init__()
        self._timestamps = Timestamps()

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": self._timestamps.iso_utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
            **_extras(record),
        }
        trace = _trace(record)
        if trace is not None:
            line["trace"] = trace
        return _encoded(line)


def _encoded(line: Mapping[str, Any]) -> str:
    text = {name: _utf8(value) if isinstance(value, str) else value for name, value in line.items()}
    return msgspec.json.encode(text).decode()


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


class _HumanFormatter(logging.Formatter):
    """`13:15:02.125 WARNING epp.scrape message key=value`."""

    def __init__(self) -> None:
        super().__init__()
        self._timestamps = Timestamps()

    def format(self, record: logging.LogRecord) -> str:
        extras = [f"{name}={value}" for name, value in _extras(record).items()]
        time = self._timestamps.iso_utc(record.created)[11:-1]
        words = [time, record.levelname, record.name, redacted(record.getMessage()), *extras]
        trace = _trace(record)
        return _utf8("\n".join([" ".join(words), *([trace] if trace else [])]))


class RateLimitedLogger:
    """Logs an event at most once in `interval_s` for each key, and says how many it kept back.

    Keys come from the program (an endpoint and a kind), never from clients; of more than `max_keys` the
    oldest is forgotten.
    """

    def __init__(
        self,
        logger: logging.Logger,
        monotonic: Callable[[], float],
        *,
        interval_s: float = 30.0,
        max_keys: int = 4096,
    ) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._interval_s = interval_s
        self._max_keys = max_keys
        self._last: dict[str, tuple[float, int]] = {}  # when it was logged, how many were kept back since

    def log(self, level: int, key: str, message: str, **extra: object) -> bool:
        """Log `message` with `extra` fields unless its key was logged lately. True when it was logged."""
        now = self._monotonic()
        logged_at, suppressed = self._last.get(key, (None, 0))
        if logged_at is not None and now - logged_at < self._interval_s:
            self._last[key] = (logged_at, suppressed + 1)
            return False
        self._last.pop(key, None)
        if len(self._last) >= self._max_keys:
            del self._last[next(iter(self._last))]
        self._last[key] = (now, 0)
        if suppressed:
            extra["suppressed"] = suppressed
        self._logger.log(level, message, extra=extra)
        return True

    def warning(self, key: str, message: str, **extra: object) -> bool:
        """`log` as a warning."""
        return self.log(logging.WARNING, key, message, **extra)
