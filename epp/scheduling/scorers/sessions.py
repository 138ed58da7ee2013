"""Which session is bound to which endpoint."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import xxhash

__all__ = ["SessionBindings"]

_FORGOTTEN_A_STEP: Final = 8


@dataclass(frozen=True, slots=True)
class _Binding:
    address: str
    used_at: float


class SessionBindings:
    """Bounded memory of sessions: a binding is forgotten when it was not used for `ttl_s` seconds, or when
    there are more than `size` and it was used longest ago.

    Ids are kept as hashes, since clients choose their length.
    """

    def __init__(self, ttl_s: float, size: int) -> None:
        self._ttl_s = ttl_s
        self._size = size
        self._bindings: OrderedDict[int, _Binding] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._bindings)

    def address_of(self, session_id: str, now: float) -> str | None:
        """The endpoint that the session is bound to, None for a session that is not known (any more)."""
        binding = self._bindings.get(_key(session_id))
        return binding.address if binding is not None and now - binding.used_at <= self._ttl_s else None

    def bind(self, session_id: str, address: str, now: float) -> None:
        """The session was used, and belongs to `address`."""
        key = _key(session_id)
        self._bindings[key] = _Binding(address, now)
        self._bindings.move_to_end(key)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop what is too much or too old, in small steps: many may expire together."""
        for _ in range(_FORGOTTEN_A_STEP):
            oldest = next(iter(self._bindings.values()))
            if len(self._bindings) <= self._size and now - oldest.used_at <= self._ttl_s:
                break
            self._bindings.popitem(last=False)


def _key(session_id: str) -> int:
    return xxhash.xxh3_64_intdigest(session_id.encode())
