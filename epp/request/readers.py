"""How the bodies of each API are read."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from epp.request.conversations import batch_prompts, chat_prompts, messages_prompts, responses_prompts
from epp.request.schema import (
    BatchBody,
    ChatBody,
    CompletionsBody,
    Envelope,
    GenerateBody,
    InputBody,
    MessagesBody,
    PairsBody,
    ResponsesBody,
    TokenizeBody,
)
from epp.request.texts import (
    completions_prompts,
    generate_prompts,
    input_prompts,
    pairs_prompts,
    tokenize_prompts,
)
from epp.request.types import Api, Prompt

__all__ = ["READERS", "Reader"]

_B = TypeVar("_B", bound=Envelope)


@dataclass(frozen=True, slots=True)
class Reader:
    """How one API's bodies are decoded, and where their prompts are."""

    decode: Callable[[bytes], Any]
    prompts: Callable[[Any], tuple[Prompt, ...]]


def _reader(body: type[_B], prompts: Callable[[_B], tuple[Prompt, ...]]) -> Reader:
    return Reader(msgspec.json.Decoder(body).decode, prompts)


_CHAT: Final = _reader(ChatBody, chat_prompts)
_COMPLETIONS: Final = _reader(CompletionsBody, completions_prompts)
_RESPONSES: Final = _reader(ResponsesBody, responses_prompts)
_MESSAGES: Final = _reader(MessagesBody, messages_prompts)
_INPUT: Final = _reader(InputBody, input_prompts)
_PAIRS: Final = _reader(PairsBody, pairs_prompts)

READERS: Final = MappingProxyType(
    {
        Api.CHAT: _CHAT,
        Api.CHAT_BATCH: _reader(BatchBody, batch_prompts),
        Api.CHAT_RENDER: _CHAT,
        Api.COMPLETIONS: _COMPLETIONS,
        Api.COMPLETIONS_RENDER: _COMPLETIONS,
        Api.RESPONSES: _RESPONSES,
        Api.RESPONSES_RENDER: _RESPONSES,
        Api.MESSAGES: _MESSAGES,
        Api.MESSAGES_RENDER: _MESSAGES,
        Api.EMBEDDINGS: _INPUT,
        Api.POOLING: _INPUT,
        Api.CLASSIFY: _INPUT,
        Api.SCORE: _PAIRS,
        Api.RERANK: _PAIRS,
        Api.GENERATE: _reader(GenerateBody, generate_prompts),
        Api.TOKENIZE: _reader(TokenizeBody, tokenize_prompts),
    }
)
