"""Prompts of texts or token ids in bodies that are read in steps: those of `epp.request.texts`."""

import re
from array import array
from collections.abc import Generator, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from epp.request.canonical import PromptBytes
from epp.request.large_conversations import LargeChat, PromptSteps, chat_steps
from epp.request.long_json import is_list, is_string, list_of, says_nothing, string_or_none
from epp.request.schema import Envelope, TokenId
from epp.request.texts import MAX_PROMPTS, ids_prompt
from epp.request.types import Prompt

__all__ = [
    "LargeCompletions", "LargeGenerate", "LargeInput", "LargePairs", "LargeTokenize", "completions_steps",
    "generate_steps", "input_steps", "pairs_steps", "tokenize_steps",
]  # fmt: skip

_decode_ids: Final = msgspec.json.Decoder(list[TokenId]).decode
_STEP_IDS: Final = 131_072
_ELEMENT_BYTES: Final = 1024  # what reading a text costs beside its bytes: a microsecond or so
_EMPTY: Final = 2  # bytes of ""
_LIST_OF_IDS: Final = re.compile(rb"\[\s*[-0-9]")


class LargeCompletions(Envelope, gc=False):
    """As `CompletionsBody`."""

    prompt: Raw = Raw()


class LargeTokenize(LargeChat, gc=False):
    """As `TokenizeBody`."""

    prompt: Raw = Raw()


class LargeInput(LargeChat, gc=False):
    """As `InputBody`."""

    input: Raw = Raw()


class LargeGenerate(Envelope, gc=False):
    """As `GenerateBody`."""

    token_ids: Raw = Raw()
    features: Raw = Raw()


class LargePairs(Envelope, gc=False):
    """As `PairsBody`."""

    query: Raw = Raw()
    queries: Raw = Raw()
    text_1: Raw = Raw()
    data_1: Raw = Raw()
    documents: Raw = Raw()
    text_2: Raw = Raw()
    data_2: Raw = Raw()


def completions_steps(body: LargeCompletions, step_bytes: int) -> PromptSteps:
    """A prompt for each text or list of ids."""
    return (yield from _texts(body, body.prompt, step_bytes))


def generate_steps(body: LargeGenerate, step_bytes: int) -> PromptSteps:
    """The token ids; none with images."""
    if says_nothing(body.token_ids):
        return ()
    if not is_list(memoryview(body.token_ids)):
        raise msgspec.ValidationError("Expected `array`")
    ids = yield from _ids(memoryview(body.token_ids), min(step_bytes, _STEP_IDS))
    return (ids_prompt(ids),) if ids and says_nothing(body.features) else ()


def tokenize_steps(body: LargeTokenize, step_bytes: int) -> PromptSteps:
    """As completions of one text or as chat, whichever the body is."""
    string_or_none(body.prompt)
    return (yield from _texts(body, body.prompt, step_bytes)) or (yield from chat_steps(body, step_bytes))


def input_steps(body: LargeInput, step_bytes: int) -> PromptSteps:
    """As completions or as chat, whichever the body is."""
    return (yield from _texts(body, body.input, step_bytes)) or (yield from chat_steps(body, step_bytes))


def pairs_steps(body: LargePairs, step_bytes: int) -> PromptSteps:
    """A prompt for each pair."""
    left = _first_given(body.query, body.queries, body.text_1, body.data_1)
    right = _first_given(body.documents, body.text_2, body.data_2)
    if len(left) == 1:
        left = [*left] * len(right)
    if len(left) != len(right):
        return ()
    prompts, read = [], 0
    for one, other in zip(left[:MAX_PROMPTS], right[:MAX_PROMPTS], strict=True):
        out = PromptBytes(step_bytes)
        out.text_json(one)
        out.text_json(other)
        prompts.append(Prompt((yield from out.finish_steps())))
        read += len(one) + len(other) + _ELEMENT_BYTES
        if read > step_bytes:
            read = 0
            yield
    return tuple(prompts)


def _first_given(*names: Raw) -> list[memoryview]:
    """What the first name says that says something; what the last one says if none does."""
    texts: list[memoryview] = []
    for raw in names:
        texts = _strings(raw)
        if texts and len(raw) > _EMPTY:
            break
    return texts


def _strings(raw: Raw) -> list[memoryview]:
    """One text or several, as JSON.

    Raises:
        ValidationError: something else.
    """
    if says_nothing(raw):
        return []
    view = memoryview(raw)
    texts = [memoryview(text) for text in list_of(raw)] if is_list(view) else [view]
    if not all(is_string(text) for text in texts):
        raise msgspec.ValidationError("Expected `str`")
    return texts


def _texts(body: Envelope, raw: Raw, step_bytes: int) -> PromptSteps:
    prompts, read = [], 0
    for text in _elements(raw)[:MAX_PROMPTS]:
        prompt = yield from _prompt(body, text, step_bytes)
        if prompt is not None:
            prompts.append(prompt)
        read += len(text) + _ELEMENT_BYTES
        if read > step_bytes:
            read = 0
            yield
    return tuple(prompts)


def _elements(raw: Raw) -> Sequence[memoryview]:
    """The JSON of each prompt; one text, or one list of ids, is one."""
    if says_nothing(raw):
        return ()
    view = memoryview(raw)
    if is_string(view) or _LIST_OF_IDS.match(view):
        return (view,)
    return [memoryview(text) for text in list_of(raw)]


def _ids(raw: memoryview, step_bytes: int) -> Generator[None, None, "array[int]"]:
    """Token ids, of which about `step_bytes` of JSON are read in a step.

    Raises:
        ValidationError: it is something else.
    """
    if len(raw) <= step_bytes:
        return array("I", _decode_ids(raw))
    ids = array("I")
    start, end = 1, len(raw) - 1
    while start < end:
        piece = _up_to_comma(raw[start:end], step_bytes)
        try:
            ids.extend(array("I", _decode_ids(b"[%b]" % piece)))
        except msgspec.DecodeError:  # cut within something that holds commas
            raise msgspec.ValidationError("Expected `int`") from None
        start += len(piece) + 1
        yield
    return ids


def _up_to_comma(raw: memoryview, size: int) -> bytes:
    """About `size` bytes of the beginning, up to a comma or to the end."""
    while size < len(raw):
        piece = bytes(raw[:size])
        comma = piece.rfind(b",")
        if comma >= 0:
            return piece[:comma]
        size *= 2
    return bytes(raw)


def _prompt(body: Envelope, text: memoryview, step_bytes: int) -> Generator[None, None, Prompt | None]:
    """None: an empty one shows nothing."""
    if not is_string(text):
        ids = yield from _ids(text, min(step_bytes, _STEP_IDS))
        return ids_prompt(ids) if ids else None
    if len(text) == _EMPTY:
        return None
    out = PromptBytes(step_bytes)
    out.value("add_special_tokens", body.add_special_tokens)
    out.bare_text(text)
    return Prompt((yield from out.finish_steps()))
