"""The configuration that runs when none is given."""

from importlib import resources

__all__ = ["builtin_config"]


def builtin_config() -> str:
    """The text of config/default.yaml, as shipped in the package."""
    return resources.files("epp.config").joinpath("default.yaml").read_text(encoding="utf-8")
