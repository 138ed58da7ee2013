"""Files that the settings name."""

from pathlib import Path

from epp.config import EffectiveConfig, Settings, load_any_config
from epp.config.builtin import builtin_config
from epp.errors import ConfigError, ConfigProblem

__all__ = ["picker_config", "read_text"]


def picker_config(settings: Settings) -> EffectiveConfig:
    """The configuration that the settings name (a plain file, Helm values or a ConfigMap), else the built-in
    one.

    Raises:
        ConfigError: it cannot be read or used.
    """
    if settings.config is None:
        return load_any_config(builtin_config(), "built-in default.yaml")[1]
    try:
        text = read_text(settings.config)
    except (OSError, UnicodeDecodeError) as error:
        remedy = "name a readable YAML file"
        problem = ConfigProblem("config", f"{settings.config} cannot be read: {error}", remedy)
        raise ConfigError([problem], "settings") from None
    return load_any_config(text, settings.config)[1]


def read_text(path: str) -> str:
    """A file's text, as UTF-8."""
    return Path(path).read_text(encoding="utf-8")
