"""Configurations that ship with the simulator: of published benchmarks, and other routers' rules."""

from importlib.resources import files

from epp.config import EffectiveConfig, load_config
from epp.config.builtin import builtin_config

__all__ = ["load_policy", "policy_names"]


def policy_names() -> tuple[str, ...]:
    """Names that `load_policy` knows."""
    found = (entry.name for entry in files(__name__).iterdir())
    return ("default", *sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml")))


def load_policy(name: str) -> EffectiveConfig:
    """A shipped policy.

    Raises:
        KeyError: there is none of that name.
    """
    if name not in policy_names():
        raise KeyError(name)
    if name == "default":
        return load_config(builtin_config(), "built-in default.yaml")
    return load_config(files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")
