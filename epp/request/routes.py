"""Which schema a path stands for."""

from types import MappingProxyType
from typing import Final

from epp.request.types import Api

__all__ = ["LONGEST_RESPONSE_ID", "api_of", "stored_response_of"]

_STORED: Final = "/v1/responses/"
LONGEST_RESPONSE_ID: Final = 256  # characters; longer ones are never remembered

_APIS: Final = MappingProxyType(
    {
        "/v1/chat/completions": Api.CHAT,
        "/v1/chat/completions/batch": Api.CHAT_BATCH,
        "/v1/chat/completions/render": Api.CHAT_RENDER,
        "/v1/completions": Api.COMPLETIONS,
        "/v1/completions/render": Api.COMPLETIONS_RENDER,
        "/v1/responses": Api.RESPONSES,
        "/v1/responses/render": Api.RESPONSES_RENDER,
        "/v1/messages": Api.MESSAGES,
        "/v1/messages/render": Api.MESSAGES_RENDER,
        "/v1/messages/count_tokens": Api.MESSAGES_RENDER,
        "/v1/embeddings": Api.EMBEDDINGS,
        "/pooling": Api.POOLING,
        "/classify": Api.CLASSIFY,
        "/score": Api.SCORE,
        "/v1/score": Api.SCORE,
        "/rerank": Api.RERANK,
        "/v1/rerank": Api.RERANK,
        "/v2/rerank": Api.RERANK,
        "/tokenize": Api.TOKENIZE,
        "/inference/v1/generate": Api.GENERATE,
        "/cohere/v2/chat": Api.CHAT,
        "/cohere/v2/chat/render": Api.CHAT_RENDER,
    }
)


def api_of(path: str) -> Api:
    """The schema of a body sent to `path` (no query); `Api.OTHER` for every path that shows no prompt."""
    return _APIS.get(path, Api.OTHER)


def stored_response_of(path: str) -> str | None:
    """The response that `/v1/responses/{id}` and what lies below it (`/cancel`) are about; None elsewhere."""
    if not path.startswith(_STORED) or path in _APIS:
        return None
    response_id = path[len(_STORED) :].partition("/")[0]
    return response_id if 0 < len(response_id) <= LONGEST_RESPONSE_ID else None
