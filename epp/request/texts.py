"""Prompts of the APIs that take texts or token ids without a chat template."""

from array import array
from collections.abc import Sequence
from typing import Any, Final

from epp.request.canonical import PromptBytes
from epp.request.conversations import chat_prompts
from epp.request.schema import (
    CompletionsBody,
    Envelope,
    GenerateBody,
    InputBody,
    PairsBody,
    Texts,
    TokenizeBody,
)
from epp.request.types import Prompt

__all__ = [
    "MAX_PROMPTS", "completions_prompts", "generate_prompts", "ids_prompt", "input_prompts", "pairs_prompts",
    "tokenize_prompts",
]  # fmt: skip

MAX_PROMPTS: Final = 2048


def completions_prompts(body: CompletionsBody) -> tuple[Prompt, ...]:
    """A prompt for each text or list of ids, up to 2,048; an empty one shows nothing.

    Text stands as its UTF-8 bytes: the only field after the arguments needs no end. Token ids stand alone.
    """
    return _texts(body, body.prompt)


def generate_prompts(body: GenerateBody) -> tuple[Prompt, ...]:
    """The token ids; none with images, whose place in the prompt ids of equal value hold."""
    if not body.token_ids or bytes(body.features) not in {b"", b"null"}:
        return ()
    return (_prompt(b"", body.token_ids),)


def tokenize_prompts(body: TokenizeBody) -> tuple[Prompt, ...]:
    """As completions or as chat, whichever the body is."""
    return _texts(body, body.prompt) or chat_prompts(body)


def input_prompts(body: InputBody) -> tuple[Prompt, ...]:
    """As completions or as chat, whichever the body is."""
    return _texts(body, body.input) or chat_prompts(body)


def pairs_prompts(body: PairsBody) -> tuple[Prompt, ...]:
    """A prompt for each pair: one text with each of the others, or two lists of one length side by side."""
    left = _list(body.query or body.queries or body.text_1 or body.data_1)
    right = _list(body.documents or body.text_2 or body.data_2)
    if len(left) == 1:
        left *= len(right)
    if len(left) != len(right):
        return ()
    pairs = zip(left[:MAX_PROMPTS], right[:MAX_PROMPTS], strict=True)
    return tuple(_pair(one, other) for one, other in pairs)


def _texts(body: Envelope, texts: Texts) -> tuple[Prompt, ...]:
    arguments = _arguments(body) if body.add_special_tokens else b""
    if isinstance(texts, str):
        return (Prompt(arguments + texts.encode()),) if texts else ()
    try:
        return tuple(_prompt(arguments, item) for item in _elements(texts)[:MAX_PROMPTS] if item)
    except TypeError:  # ids beside texts or beside lists of ids: no documented form
        return ()


def _arguments(body: Envelope) -> bytes:
    out = PromptBytes()
    out.value("add_special_tokens", body.add_special_tokens)
    return out.finish()


def _prompt(arguments: bytes, item: str | list[int]) -> Prompt:
    if isinstance(item, str):
        return Prompt(arguments + item.encode())
    return ids_prompt(item)


def ids_prompt(ids: Sequence[int]) -> Prompt:
    """Token ids stand alone, four bytes each."""
    return Prompt(array("I", ids).tobytes(), token_ids=True)


def _elements(texts: list[Any] | None) -> list[Any]:
    """A list of ids is one prompt."""
    if texts and isinstance(texts[0], int):
        return [texts]
    return texts or []


def _list(texts: str | list[str] | None) -> list[str]:
    return [texts] if isinstance(texts, str) else texts or []


def _pair(one: str, other: str) -> Prompt:
    out = PromptBytes()
    out.text(one)
    out.text(other)
    return Prompt(out.finish())
