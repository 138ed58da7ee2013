"""One pool from several sources."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from epp.endpoints.types import EndpointSpec

__all__ = ["Merged", "merge"]


@dataclass(frozen=True, slots=True)
class Merged:
    """The pool, and where sources contradict each other, one line each."""

    specs: tuple[EndpointSpec, ...]
    conflicts: tuple[str, ...] = ()


def merge(found: Iterable[tuple[str, Sequence[EndpointSpec]]]) -> Merged:
    """Endpoints of (source's name, its set), each address once, in the order in which they are met.

    The first source that names an address decides on its scheme; of uid, name and namespace the first that is
    not empty counts; labels are put together, and where two sources give one label the first one's value
    holds. An address is gone when no source names it any more.
    """
    pool: dict[str, EndpointSpec] = {}
    named_by: dict[str, str] = {}
    conflicts: list[str] = []
    for source, specs in found:
        for spec in specs:
            known = pool.get(spec.address)
            if known is None:
                pool[spec.address] = spec
                named_by[spec.address] = source
                continue
            if known.scheme != spec.scheme:
                first = named_by[spec.address]
                conflicts.append(f"{spec.address} is {known.scheme} by {first}, {spec.scheme} by {source}")
            pool[spec.address] = _together(known, spec)
    return Merged(tuple(pool.values()), tuple(conflicts))


def _together(first: EndpointSpec, second: EndpointSpec) -> EndpointSpec:
    named = first if first.name else second
    return replace(
        first,
        labels={**second.labels, **first.labels},
        uid=first.uid or second.uid,
        name=named.name,
        namespace=named.namespace,
    )
