"""The relayed routes that vLLM documents, for the OpenAPI page; any other path is relayed too."""

from collections.abc import Iterable, Sequence
from typing import Final

from epp.api.openapi import RelayedRoute
from epp.config.path_rules import PathRule, is_open

__all__ = ["RELAYED_ROUTES", "relayed_routes"]

_BY_PREFIX: Final = (
    ("POST", "/v1/chat/completions", "Chat completions, streamed or not"),
    ("POST", "/v1/chat/completions/batch", "Several conversations in one request"),
    ("POST", "/v1/chat/completions/render", "Tokens of a chat"),
    ("POST", "/v1/completions", "Completions, streamed or not"),
    ("POST", "/v1/completions/render", "Tokens of a completion's prompts"),
    ("POST", "/v1/responses", "Responses, streamed or not"),
    ("POST", "/v1/responses/render", "Tokens of a response's input"),
    ("POST", "/v1/messages", "Anthropic messages, streamed or not"),
    ("POST", "/v1/messages/count_tokens", "Number of tokens of Anthropic messages"),
    ("POST", "/v1/messages/render", "Tokens of Anthropic messages"),
    ("POST", "/cohere/v2/chat", "Cohere chat, streamed or not"),
    ("POST", "/cohere/v2/chat/render", "Tokens of a Cohere chat"),
    ("POST", "/inference/v1/generate", "Tokens in, tokens out"),
    ("POST", "/v1/embeddings", "Embeddings"),
    ("POST", "/pooling", "Pooled hidden states"),
    ("POST", "/classify", "Classes of texts"),
    ("POST", "/score", "Scores of pairs of texts"),
    ("POST", "/v1/score", "Scores of pairs of texts"),
    ("POST", "/rerank", "Documents ranked by a query"),
    ("POST", "/v1/rerank", "Documents ranked by a query"),
    ("POST", "/v2/rerank", "Documents ranked by a query"),
    ("POST", "/tokenize", "Tokens of a prompt"),
)
_TO_ITS_HOLDER: Final = (
    ("GET", "/v1/responses/{response_id}", "A stored response"),
    ("POST", "/v1/responses/{response_id}/cancel", "Stop a response in the background"),
)
_BY_LOAD: Final = (
    ("POST", "/v1/audio/transcriptions", "Text of a recording; the upload is forwarded as it comes"),
    ("POST", "/v1/audio/translations", "English text of a recording; the upload is forwarded as it comes"),
    ("GET", "/v1/realtime", "WebSocket: text of speech as it is spoken"),
    ("POST", "/v1/decisions", "Decisions"),
    ("POST", "/v1/systemone", "System one"),
    ("POST", "/generative_scoring", "Probabilities of labels"),
    ("POST", "/v2/embed", "Cohere embeddings"),
    ("POST", "/invocations", "SageMaker's name for any of the above"),
    ("POST", "/detokenize", "Text of tokens"),
    ("GET", "/tokenizer_info", "Configuration of the tokenizer"),
    ("POST", "/v1/chat/completions/derender", "A chat completion from tokens"),
    ("POST", "/v1/completions/derender", "A completion from tokens"),
    ("GET", "/kv_event_sources", "Where one endpoint publishes its cache events"),
    ("GET", "/ready", "Readiness of one endpoint's data-parallel supervisor"),
    ("POST", "/generate", "vLLM's demonstration server"),
)


def _routes(rows: Iterable[tuple[str, str, str]], how: str) -> list[RelayedRoute]:
    return [RelayedRoute(method, path, f"{summary}; {how}") for method, path, summary in rows]


RELAYED_ROUTES: Final = (
    *_routes(_BY_PREFIX, "routed by prefix"),
    *_routes(_TO_ITS_HOLDER, "sent to the endpoint that holds it"),
    *_routes(_BY_LOAD, "routed by load"),
)


def relayed_routes(rules: Sequence[PathRule]) -> tuple[RelayedRoute, ...]:
    """Those that the path rules leave open."""
    return tuple(route for route in RELAYED_ROUTES if is_open(rules, route.path))
