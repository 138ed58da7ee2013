"""Command lines of the Go endpoint picker: its image is started with flags and no command.

Each of its flags is one of ours under another name, says what happens here anyway, or cannot be followed;
only the last is an error. Go takes one dash or two, and a switch without a value.
"""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from epp.errors import ConfigError, ConfigProblem

__all__ = ["PICKER_PORTS", "Translated", "help_text", "translate"]

# Where its image listens: key path → default.
PICKER_PORTS: Final = {"grpc.port": 9002, "grpc.healthPort": 9003, "adminPort": 9090}

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_GO_VERSIONS: Final = {"VersionTLS12": "1.2", "VersionTLS13": "1.3"}
_DEBUG_FROM: Final = 4  # klog's verbosity, of which the Go picker uses 2 (default) to 5


class _Kind(enum.Enum):
    VALUE = enum.auto()
    SWITCH = enum.auto()


@dataclass(frozen=True, slots=True)
class _Flag:
    """`ours` is the flag that it becomes; without one it is dropped, and `why` says why.

    `harmless` are values of which nothing needs to be said; `refused` cannot run without what it asks for.
    """

    kind: _Kind = _Kind.VALUE
    ours: str = ""
    why: str = ""
    harmless: frozenset[str] = frozenset()
    refused: bool = False
    own: bool = False  # we have a flag of this name that is not the picker's alone


def _renamed(ours: str, kind: _Kind = _Kind.VALUE) -> _Flag:
    return _Flag(kind, ours)


def _dropped(why: str, *harmless: str, kind: _Kind = _Kind.VALUE, refused: bool = False) -> _Flag:
    return _Flag(kind, why=why, harmless=frozenset(harmless), refused=refused)


def _switch(why: str, *harmless: str) -> _Flag:
    return _dropped(why, *harmless, kind=_Kind.SWITCH)


_SIZED: Final = "messages may be as long as maxRequestBytes"
_FLAGS: Final[dict[str, _Flag]] = {
    "grpc-port": _renamed("--grpc-port"),
    "grpc-health-port": _renamed("--grpc-health-port"),
    "metrics-port": _renamed("--metrics-port"),
    "pool-name": _renamed("--pool-name"),
    "config-file": _renamed("--config-file"),
    "config-text": _renamed("--config-text"),
    "secure-serving": _renamed("--secure-serving", _Kind.SWITCH),
    "cert-path": _renamed("--cert-path"),
    "refresh-metrics-interval": _renamed("--refresh-metrics-interval"),
    "model-server-metrics-path": _renamed("--model-server-metrics-path"),
    "total-queued-requests-metric": _renamed("--total-queued-requests-metric"),
    "total-running-requests-metric": _renamed("--total-running-requests-metric"),
    "kv-cache-usage-percentage-metric": _renamed("--kv-cache-usage-percentage-metric"),
    "drain-timeout": _Flag(ours="--drain-timeout", own=True),
    "metrics-staleness-threshold": _Flag(ours="--metrics-staleness-threshold", own=True),
    "v": _Flag(),
    "zap-log-level": _Flag(),
    "zap-encoder": _Flag(),
    "tls-min-version": _Flag(own=True),
    "disable-endpoint-subset-filter": _Flag(_Kind.SWITCH),
    "pool-namespace": _renamed("--kubernetes-namespace"),
    "pool-group": _renamed("--kubernetes-pool-group"),
    "kubeconfig": _renamed("--kubernetes-kubeconfig"),
    "endpoint-selector": _renamed("--kubernetes-selector"),
    "endpoint-target-ports": _renamed("--kubernetes-ports"),
    "ha-enable-leader-election": _renamed("--kubernetes-leader-election", _Kind.SWITCH),
    "health-checking": _switch("health is served on the picker's port too", "true", "false"),
    "enable-cert-reload": _switch("changed certificates are always followed", "true"),
    "tls-cipher-suites": _dropped("gRPC's own are used"),
    "tracing": _switch("no traces are sent", "false"),
    "enable-pprof": _switch("there is no profiling endpoint", "true", "false"),
    "metrics-endpoint-auth": _renamed("--metrics-endpoint-auth", _Kind.SWITCH),
    "metrics-client-ca-file": _dropped("use adminTls.clientCa", refused=True),
    "metrics-cert-dir": _dropped("use adminTls.cert and adminTls.key", refused=True),
    "allow-experimental-plugins": _switch("no plugin needs leave", "true", "false"),
    "emit-endpoint-scores": _switch("scores stand in receipts", "false"),
    "enable-grpc-stream-metrics": _switch("see docs/metrics.md for what is counted", "true", "false"),
    "grpc-max-recv-msg-size": _dropped(_SIZED),
    "grpc-max-send-msg-size": _dropped(_SIZED),
    "refresh-prometheus-metrics-interval": _dropped("metrics are always current"),
    "lora-info-metric": _dropped(
        "adapters are read under vLLM's own name only", "vllm:lora_requests_info", refused=True
    ),
    "cache-info-metric": _dropped(
        "block sizes are read under the engines' own names only", "vllm:cache_config_info", refused=True
    ),
    "model-server-metrics-port": _dropped(
        "metrics are read from the port that serves requests", "0", refused=True
    ),
    "model-server-metrics-scheme": _dropped("each endpoint's own scheme is used", "http"),
    "model-server-metrics-https-insecure-skip-verify": _switch("see upstream.tls", "true", "false"),
    "zap-devel": _switch("see --log-format", "true", "false"),
    "zap-stacktrace-level": _dropped("tracebacks are logged with errors", "error", "panic"),
    "zap-time-encoding": _dropped("times are written as in RFC 3339", "rfc3339", "rfc3339nano", "iso8601"),
}


@dataclass(frozen=True, slots=True)
class Translated:
    """Words for our own parser, what to tell, and whether the picker's ports are the default."""

    words: tuple[str, ...]
    notices: tuple[str, ...]
    picker: bool


def translate(words: Sequence[str], *, bare: bool) -> Translated:
    """Our words for a command line that may hold the Go picker's.

    `bare`: no command was named, as its image does it; then any flag that is the picker's alone makes this a
    picker, else only `--pool-name` does.

    Raises:
        ConfigError: a flag asks for what is not there.
    """
    out: list[str] = []
    notices: list[str] = []
    problems: list[ConfigProblem] = []
    picker = False
    rest = iter(words)
    for word in rest:
        name, flag, value = _read(word, rest)
        if flag is None:
            out.append(word)
            continue
        picker = picker or name == "pool-name" or (bare and not flag.own)
        out += _ours(name, flag, value)
        if flag.why and value not in flag.harmless:
            if flag.refused:
                problems.append(ConfigProblem(f"--{name}", flag.why, "leave it out"))
            else:
                notices.append(f"--{name} has no effect: {flag.why}")
    if problems:
        raise ConfigError(problems, "command line")
    return Translated(tuple(out), tuple(notices), picker)


def _read(word: str, rest: Iterator[str]) -> tuple[str, _Flag | None, str]:
    """Name, flag and value of a word, taking the next one where the value stands there."""
    if not word.startswith("-"):
        return "", None, ""
    name, equals, value = word.lstrip("-").partition("=")
    flag = _FLAGS.get(name)
    if flag is None and name.startswith("zap-"):
        flag = _dropped("it is the Go picker's logger's")
    if flag is None:
        return name, None, ""
    if flag.kind is _Kind.SWITCH:
        value = value or "true"
        return name, flag, "true" if value in _TRUE else "false"
    return name, flag, value if equals else next(rest, "")


def _ours(name: str, flag: _Flag, value: str) -> list[str]:
    if flag.ours:
        return [f"{flag.ours}={value}"]
    if name == "v":
        return ["--log-level=debug"] if value.isdigit() and int(value) >= _DEBUG_FROM else []
    if name == "zap-log-level":
        known = {"debug": "debug", "info": "info", "error": "error", "panic": "error"}
        return [f"--log-level={known.get(value, 'debug' if value.isdigit() else value)}"]
    if name == "zap-encoder":
        return [f"--log-format={'human' if value == 'console' else value}"]
    if name == "tls-min-version":
        return [f"--tls-min-version={_GO_VERSIONS.get(value, value)}"]
    if name == "disable-endpoint-subset-filter":
        return [f"--grpc-subset-hint={'false' if value == 'true' else 'true'}"]
    return []


def help_text() -> str:
    """What `epp serve --help` says of them."""
    lines = ["flags of the Go endpoint picker:"]
    for name, flag in _FLAGS.items():
        if flag.why:
            lines.append(f"  --{name}: {'refused' if flag.refused else 'no effect'}: {flag.why}")
    lines.append(f"  the others: {', '.join(f'--{n}' for n, f in _FLAGS.items() if not f.why)}")
    return "\n".join(lines)
