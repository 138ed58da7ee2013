"""What routing needs to know of a request."""

import enum

import msgspec

__all__ = ["Api", "Body", "InferenceRequest", "Prompt"]

Body = bytes | bytearray
"""A body; a large one was collected in place."""


class Api(enum.StrEnum):
    """The schema of a body, told by the path."""

    CHAT = "chat"
    CHAT_BATCH = "chat-batch"
    CHAT_RENDER = "chat-render"
    COMPLETIONS = "completions"
    COMPLETIONS_RENDER = "completions-render"
    RESPONSES = "responses"
    RESPONSES_RENDER = "responses-render"
    MESSAGES = "messages"
    MESSAGES_RENDER = "messages-render"
    EMBEDDINGS = "embeddings"
    POOLING = "pooling"
    CLASSIFY = "classify"
    SCORE = "score"
    RERANK = "rerank"
    GENERATE = "generate"
    TOKENIZE = "tokenize"
    OTHER = "other"

    @property
    def computes(self) -> bool:
        """Whether the model runs over the prompt, so that its blocks are in the cache afterwards.

        Tokenising, rendering and counting show a prompt and leave nothing of it in any cache.
        """
        return self not in _TEMPLATE_ONLY


_TEMPLATE_ONLY = frozenset(
    {Api.CHAT_RENDER, Api.COMPLETIONS_RENDER, Api.RESPONSES_RENDER, Api.MESSAGES_RENDER, Api.TOKENIZE}
)


class Prompt(msgspec.Struct, frozen=True):
    """One prompt to hash.

    `data` is injective and prefix-preserving: appending to the last field or adding messages keeps all
    earlier bytes. For `token_ids` it is the ids as little-endian uint32, so four bytes are one token exactly;
    otherwise it is canonical text, and bytes per token are learned.
    """

    data: Body
    token_ids: bool = False


class InferenceRequest(msgspec.Struct, frozen=True):
    """A parsed request; the body itself stays with the front door and is forwarded untouched.

    Attributes:
        api: the schema.
        model: as the client named it; None when absent, null or empty.
        salt: `cache_salt`, "" when absent; part of the chain's seed.
        prompts: each element of a list of prompts is one, with its own chain. Empty: no prompt is visible.
        stream: the client asked for server-sent events. Only a hint: the response's content type decides.
        body_bytes: size of the body as it came.
        max_output_tokens: `max_completion_tokens`, else `max_tokens`; None when absent or not a positive int.
        replay_safe: False when sending it twice may have an effect of its own (`store`, `background`).
        stored_response: id of the response that it continues or asks for, which one endpoint has in memory.
    """

    api: Api
    model: str | None
    salt: str
    prompts: tuple[Prompt, ...]
    stream: bool
    body_bytes: int
    max_output_tokens: int | None = None
    replay_safe: bool = True
    stored_response: str | None = None
