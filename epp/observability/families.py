"""Every metric family that epp has, beside the process metrics of the client library; see docs/metrics.md."""

from typing import Final

from epp.observability import families_compat, families_own
from epp.observability.instruments import Family

__all__ = ["FAMILIES"]

FAMILIES: Final = tuple(
    value
    for module in (families_compat, families_own)
    for value in vars(module).values()
    if isinstance(value, Family)
)
