"""Files that the settings name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from epp.config import EffectiveConfig, Settings, load_any_config
from epp.config.builtin import builtin_config
from epp.errors import ConfigError, ConfigProblem

__all__ = ["MAX_CONFIG_BYTES", "Configurations", "parse_configuration", "read_configurations", "read_text"]

MAX_CONFIG_BYTES: Final = 8 << 20  # a Helm values file may hold much else


@dataclass(frozen=True, slots=True)
class Configurations:
    """What decides, and what decides beside it and is only compared."""

    live: EffectiveConfig
    shadow: EffectiveConfig | None = None


def read_configurations(settings: Settings) -> Configurations:
    """Those that the settings name; without `config` the built-in one.

    Raises:
        ConfigError: one cannot be read or used.
    """
    if settings.config is None:
        live = load_any_config(builtin_config(), "built-in default.yaml")[1]
    else:
        live = _read(settings.config, "config")
    shadow = None if settings.shadow_config is None else _read(settings.shadow_config, "shadowConfig")
    return Configurations(live, shadow)


def _read(path: str, setting: str) -> EffectiveConfig:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        problem = ConfigProblem(setting, f"{path} cannot be read: {error}", "name a readable YAML file")
        raise ConfigError([problem], "settings") from None
    return parse_configuration(content, path)


def parse_configuration(content: bytes, path: str) -> EffectiveConfig:
    """The configuration in a file's content: plain, or in Helm values or a ConfigMap.

    Raises:
        ConfigError: it cannot be used.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ConfigError([ConfigProblem("document", "is not UTF-8", "save it as UTF-8")], path) from None
    return load_any_config(text, path)[1]


def read_text(path: str) -> str:
    """A file's text, as UTF-8."""
    return Path(path).read_text(encoding="utf-8")
