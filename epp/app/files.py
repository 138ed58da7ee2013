"""Files that the settings name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from epp.config import EffectiveConfig, Settings, load_any_config
from epp.config.builtin import builtin_config
from epp.errors import ConfigError, ConfigProblem

__all__ = [
    "MAX_CONFIG_BYTES", "Configurations", "parse_configuration", "picker_config", "read_configurations",
    "read_text",
]  # fmt: skip

MAX_CONFIG_BYTES: Final = 8 << 20  # a Helm values file may hold much else


@dataclass(frozen=True, slots=True)
class Configurations:
    """What decides, and what decides beside it and is only compared."""

    live: EffectiveConfig
    shadow: EffectiveConfig | None = None


def read_configurations(settings: Settings) -> Configurations:
    """Those that the settings name.

    Raises:
        ConfigError: one cannot be read or used.
    """
    shadow = settings.shadow_config
    return Configurations(picker_config(settings), None if shadow is None else _read(shadow, "shadowConfig"))


def picker_config(settings: Settings) -> EffectiveConfig:
    """The configuration that the settings name (a plain file, Helm values or a ConfigMap), else the built-in
    one.

    Raises:
        ConfigError: it cannot be read or used.
    """
    if settings.config_text is not None:
        return load_any_config(settings.config_text, "configText")[1]
    if settings.config is None:
        return load_any_config(builtin_config(), "built-in default.yaml")[1]
    return _read(settings.config, "config")


def _read(path: str, setting: str) -> EffectiveConfig:
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        remedy = "name a readable YAML file"
        problem = ConfigProblem(setting, f"{path} cannot be read: {error}", remedy)
        raise ConfigError([problem], "settings") from None
    return load_any_config(text, path)[1]


def parse_configuration(content: bytes, path: str) -> EffectiveConfig:
    """The configuration in the content of a file; the path is for messages.

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
