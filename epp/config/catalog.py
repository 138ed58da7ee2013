"""Every plugin type that a configuration may name."""

from epp.flow.catalog import flow_types
from epp.scheduling.catalog import scheduling_types
from epp.scheduling.registry import Registry

__all__ = ["default_registry"]


def default_registry() -> Registry:
    """The plugin types of this router."""
    return Registry([*scheduling_types(), *flow_types()])
