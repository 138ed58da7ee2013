"""Which schema a path stands for."""

from types import MappingProxyType
from typing import Final

from epp.request.types import Api

__all__ = ["api_of"]

_APIS: Final = MappingProxyType(
    {
        "/v1/chat/completions": Api.CHAT,
        "/v1/completions": Api.COMPLETIONS,
    }
)


def api_of(path: str) -> Api:
    """The schema of a body sent to `path` (no query); `Api.OTHER` for every path that shows no prompt."""
    return _APIS.get(path, Api.OTHER)
