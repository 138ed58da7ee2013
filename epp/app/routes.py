"""The relayed routes, for the OpenAPI page; any other path is relayed too."""

from typing import Final

from epp.api.openapi import RelayedRoute

__all__ = ["RELAYED_ROUTES"]

RELAYED_ROUTES: Final = tuple(
    RelayedRoute("POST", path, summary)
    for path, summary in (
        ("/v1/chat/completions", "Chat completions, streamed or not; routed by prefix"),
        ("/v1/completions", "Completions, streamed or not; routed by prefix"),
        ("/v1/responses", "Responses; routed by prefix"),
        ("/v1/messages", "Anthropic messages; routed by prefix"),
        ("/v1/embeddings", "Embeddings; routed by prefix"),
        ("/tokenize", "Tokens of a prompt"),
        ("/detokenize", "Text of tokens"),
    )
)
