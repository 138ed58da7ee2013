"""How the bodies of each API are read."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from epp.request.conversations import batch_prompts, chat_prompts, messages_prompts, responses_prompts
from epp.request.large_conversations import (
    LargeBatch,
    LargeChat,
    LargeMessages,
    LargeResponses,
    PromptSteps,
    batch_steps,
    chat_steps,
    messages_steps,
    responses_steps,
)
from epp.request.large_texts import (
    LargeCompletions,
    LargeGenerate,
    LargeInput,
    LargePairs,
    LargeTokenize,
    completions_steps,
    generate_steps,
    input_steps,
    pairs_steps,
    tokenize_steps,
)
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
from epp.request.types import Api, Body, Prompt

__all__ = ["READERS", "Reader"]

_B = TypeVar("_B", bound=Envelope)
_L = TypeVar("_L", bound=Envelope)


@dataclass(frozen=True, slots=True)
class Reader:
    """How one API's bodies are decoded, and where their prompts are: at once, and in steps."""

    decode: Callable[[Body], Any]
    prompts: Callable[[Any], tuple[Prompt, ...]]
    decode_large: Callable[[Body | memoryview], Any]
    prompt_steps: Callable[[Any, int], PromptSteps]


def _reader(
    body: type[_B],
    prompts: Callable[[_B], tuple[Prompt, ...]],
    large: type[_L],
    steps: Callable[[_L, int], PromptSteps],
) -> Reader:
    return Reader(msgspec.json.Decoder(body).decode, prompts, msgspec.json.Decoder(large).decode, steps)


_CHAT: Final = _reader(ChatBody, chat_prompts, LargeChat, chat_steps)
_BATCH: Final = _reader(BatchBody, batch_prompts, LargeBatch, batch_steps)
_COMPLETIONS: Final = _reader(CompletionsBody, completions_prompts, LargeCompletions, completions_steps)
_RESPONSES: Final = _reader(ResponsesBody, responses_prompts, LargeResponses, responses_steps)
_MESSAGES: Final = _reader(MessagesBody, messages_prompts, LargeMessages, messages_steps)
_INPUT: Final = _reader(InputBody, input_prompts, LargeInput, input_steps)
_PAIRS: Final = _reader(PairsBody, pairs_prompts, LargePairs, pairs_steps)
_GENERATE: Final = _reader(GenerateBody, generate_prompts, LargeGenerate, generate_steps)
_TOKENIZE: Final = _reader(TokenizeBody, tokenize_prompts, LargeTokenize, tokenize_steps)

READERS: Final = MappingProxyType(
    {
        Api.CHAT: _CHAT,
        Api.CHAT_BATCH: _BATCH,
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
        Api.GENERATE: _GENERATE,
        Api.TOKENIZE: _TOKENIZE,
    }
)
