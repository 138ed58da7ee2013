"""Which endpoints serve which model."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from epp.endpoints.types import Endpoint, ModelInfo, Pool
from epp.errors import BadRequestError, ModelNotFoundError

__all__ = ["ModelCatalog", "Resolution"]

_NAMED = 20  # models of a pool that an error names
_SHOWN = 200  # characters of a client's model name that an error repeats


class Resolution(msgspec.Struct, frozen=True, eq=False):
    """What a model name means in a pool.

    Attributes:
        model: the name to count and show; "" when the pool does not know its models and none was named.
        base: identity of the base model. Aliases of a model share it, so they share cached prefixes.
        adapter: the adapter's name, "" for a base model.
        endpoints: all that serve it, those included that take no requests at this time.
    """

    model: str
    base: str
    adapter: str
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class _Served:
    base: str
    adapter: str
    slots: frozenset[int]


class ModelCatalog:
    """Resolves model names against a pool.

    An endpoint that has not told its models yet is a candidate for every name. When all have told, a name
    that none of them lists does not exist. What is computed is kept until the pool changes, what does not
    depend on metrics until its topology does.
    """

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._served: dict[str, _Served] = {}
        self._untold: frozenset[int] = frozenset()
        self._default: str | None = None
        self._models_json: bytes | None = None
        self._resolutions: dict[str, Resolution] = {}
        self._unknown: tuple[Endpoint, ...] | None = None

    def resolve(self, pool: Pool, name: str | None) -> Resolution:
        """The meaning of `name`; None (absent, null or empty) means the pool's only base model.

        Raises:
            BadRequestError: no name was given and the pool serves several base models, or none.
            ModelNotFoundError: no endpoint serves it, and all have told their models.
        """
        if pool is not self._pool:
            self._look_at(pool)
        if not name:
            name = self._only_model(pool)
        known = self._resolutions.get(name)
        if known is not None:
            return known
        served = self._served.get(name)
        if served is None:
            return self._resolve_unknown(pool, name)
        endpoints = _at(pool, served.slots | self._untold)
        resolution = Resolution(name, served.base, served.adapter, endpoints)
        self._resolutions[name] = resolution
        return resolution

    def names(self, pool: Pool) -> tuple[str, ...]:
        """All models and adapters that the pool is known to serve, in order of slots."""
        self._look_at(pool)
        return tuple(self._served)

    def models_json(self, pool: Pool) -> bytes:
        """The body of `/v1/models`: entries of all endpoints, unchanged, one for each id."""
        self._look_at(pool)
        if self._models_json is None:
            entries: dict[str, bytes] = {}
            for _, info in _listed(pool):
                entries.setdefault(info.id, info.raw)
            self._models_json = b'{"object":"list","data":[' + b",".join(entries.values()) + b"]}"
        return self._models_json

    def _look_at(self, pool: Pool) -> None:
        if pool is self._pool:
            return
        known = self._pool
        if known is None or pool.topology is None or pool.topology != known.topology:
            self._served = _served(pool)
            self._untold = frozenset(e.slot for e in pool.endpoints if e.models is None)
            self._default = _only_base(pool)
            self._models_json = None
        self._pool = pool
        self._resolutions = {}
        self._unknown = None

    def _only_model(self, pool: Pool) -> str:
        if self._default is not None:
            return self._default
        if not pool.endpoints or (self._untold and not self._served):
            return ""
        bases = [name for name, served in self._served.items() if not served.adapter]
        shown = ", ".join(name[:_SHOWN] for name in bases[:_NAMED])
        shown += " and others" if len(bases) > _NAMED else ""
        serves = f"this pool serves {shown}" if bases else "this pool serves no model"
        raise BadRequestError(f"model is missing and cannot be guessed: {serves}", param="model")

    def _resolve_unknown(self, pool: Pool, name: str) -> Resolution:
        if pool.endpoints and not self._untold:
            raise ModelNotFoundError(f"model {name[:_SHOWN]!r} does not exist", param="model")
        if self._unknown is None:
            self._unknown = _at(pool, self._untold)
        return Resolution(name, name, "", self._unknown)


def _at(pool: Pool, slots: frozenset[int]) -> tuple[Endpoint, ...]:
    if len(slots) == len(pool.endpoints):
        return pool.endpoints
    return tuple(e for e in pool.endpoints if e.slot in slots)


def _listed(pool: Pool) -> Iterable[tuple[Endpoint, ModelInfo]]:
    return ((endpoint, info) for endpoint in pool.endpoints for info in endpoint.models or ())


def _served(pool: Pool) -> dict[str, _Served]:
    """By name. Where endpoints disagree on what a name is, the lowest slot is right."""
    first: dict[str, ModelInfo] = {}
    slots: dict[str, set[int]] = {}
    for endpoint, info in _listed(pool):
        first.setdefault(info.id, info)
        slots.setdefault(info.id, set()).add(endpoint.slot)
    return {
        name: _Served(_base(info, first), name if info.parent else "", frozenset(slots[name]))
        for name, info in first.items()
    }


def _base(info: ModelInfo, known: dict[str, ModelInfo]) -> str:
    """`root`, else the id; an adapter's is that of its parent (its own root is a path of the adapter)."""
    if info.parent:
        parent = known.get(info.parent)
        return info.parent if parent is None else parent.root or parent.id
    return info.root or info.id


def _only_base(pool: Pool) -> str | None:
    """The name of the pool's only base model, None when it has several or none.

    Two names are one model when one endpoint lists both with the same root. The same root at two endpoints
    proves nothing: it is often a path such as /model.
    """
    canonical: dict[str, str] = {}
    for endpoint in pool.endpoints:
        roots: dict[str, str] = {}
        for info in endpoint.models or ():
            if not info.parent:
                alias_of = roots.setdefault(info.root or info.id, info.id)
                canonical.setdefault(info.id, canonical.get(alias_of, alias_of))
    models = set(canonical.values())
    return models.pop() if len(models) == 1 else None
