"""epp: the cache-aware router for fleets of vLLM servers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epp.picker import Picker

__version__ = "0.1.0"
__all__ = ["Picker", "__version__"]


def __getattr__(name: str) -> Any:
    """Load `epp.Picker` on first use, so that `import epp` stays free of dependencies."""
    if name != "Picker":
        raise AttributeError(f"module 'epp' has no attribute {name!r}")
    from epp.picker import Picker  # noqa: PLC0415 - lazy by contract

    return Picker
