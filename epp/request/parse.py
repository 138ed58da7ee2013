"""A body to an `InferenceRequest`.

Only what cannot be read or routed is refused here: broken JSON and a model that is no string. Everything
else is the endpoint's to judge, in its own words; a prompt of a shape that nobody documents is not hashed.
"""

import json
from collections.abc import Generator
from typing import Final

import msgspec

from epp.errors import BadRequestError
from epp.request.canonical import LARGE_BYTES, NEVER_IN_UTF8, string_bytes
from epp.request.readers import READERS, Reader
from epp.request.routes import LONGEST_RESPONSE_ID
from epp.request.schema import Envelope
from epp.request.steps import result_of
from epp.request.types import Api, Body, InferenceRequest, Prompt

__all__ = ["checked_model", "is_manifold", "parse_request", "parse_steps"]

_BOM: Final = b"\xef\xbb\xbf"
_MAX_REPAIRED_BYTES: Final = 1_000_000  # a repaired body is decoded whole; no large one is repaired
_MAX_MODEL_CHARACTERS: Final = 1024  # names are remembered, logged and used as labels
_NOT_GIVEN: Final = frozenset({b"", b"null"})
_MANIFOLD_BYTES: Final = 131_072
_MANY_OBJECTS: Final = 1000
_MANY_COMMAS: Final = 16_000  # of token ids: a megabyte of text has fewer
_MAX_ELEMENTS: Final = 1_000_000  # of lists and objects: this bounds the memory of what is decoded

_TRUE: Final = msgspec.Raw(b"true")

_decode_envelope = msgspec.json.Decoder(Envelope).decode


def parse_request(api: Api, body: Body) -> InferenceRequest:
    r"""Read what routing needs from a decoded body (see `decode_body`); the body stays as it is.

    Of two equal keys the last counts, as in vLLM's parser. With `truncate_prompt_tokens` the endpoint cuts
    the prompt's beginning, so none is shown. A lone UTF-16 surrogate (`"\ud800"`), which no tokenizer takes
    but JSON allows, is hashed as a question mark in bodies up to 1 MB and refused in longer ones.

    Raises:
        BadRequestError: not UTF-8, not JSON, not an object, nested too deeply, or `model` is not a string of
            at most 1,024 characters.
    """
    reader = READERS.get(api)
    if reader is None:
        return InferenceRequest(api, None, "", (), stream=False, body_bytes=len(body))
    if len(body) > LARGE_BYTES:
        return result_of(parse_steps(api, body))
    if not body.isascii():
        _refuse_impossible_bytes(body)
    try:
        decoded, prompts = _read(reader, body.removeprefix(_BOM))
        return _request(api, decoded, prompts, len(body))
    except (RecursionError, ValueError) as error:
        raise _refusal(body, error) from None


def is_manifold(body: Body) -> bool:
    """Whether `body`, though it is not large, may have so many elements that it should be read in steps.

    One with lone surrogates is not: it is repaired, which is one step.
    """
    if not _MANIFOLD_BYTES < len(body) <= LARGE_BYTES:
        return False
    many = body.count(b"},") > _MANY_OBJECTS or body.count(b",") > _MANY_COMMAS
    return many and b"\\ud" not in body.lower()


def parse_steps(
    api: Api, body: Body, step_bytes: int = LARGE_BYTES
) -> Generator[None, None, InferenceRequest]:
    """`parse_request`, which yields between its steps if `body` is larger than `step_bytes`, or manifold."""
    reader = READERS.get(api)
    if reader is None or (len(body) <= step_bytes and not is_manifold(body)):
        return parse_request(api, body)
    yield from _refuse_impossible_steps(body, step_bytes)
    try:
        decoded, prompts = yield from _read_steps(reader, body, step_bytes)
        return _request(api, decoded, prompts, len(body))
    except (RecursionError, ValueError) as error:
        raise _refusal(body, error) from None


def _read_steps(
    reader: Reader, body: Body, step_bytes: int
) -> Generator[None, None, tuple[Envelope, tuple[Prompt, ...]]]:
    json = memoryview(body)[len(_BOM) :] if body.startswith(_BOM) else body
    if (yield from _has_many_elements(body, step_bytes)):
        return _decode_envelope(json), ()
    try:
        decoded = reader.decode_large(json)
        yield
        shown = bytes(decoded.truncate_prompt_tokens) in _NOT_GIVEN
        return decoded, ((yield from reader.prompt_steps(decoded, step_bytes)) if shown else ())
    except msgspec.ValidationError:
        yield
    return _decode_envelope(json), ()


def _has_many_elements(body: Body, step_bytes: int) -> Generator[None, None, bool]:
    commas = 0
    for start in range(0, len(body), step_bytes):
        commas += body.count(b",", start, start + step_bytes)
        yield
    return commas > _MAX_ELEMENTS


def _read(reader: Reader, body: Body) -> tuple[Envelope, tuple[Prompt, ...]]:
    try:
        return _read_strictly(reader, body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if len(body) > _MAX_REPAIRED_BYTES or b"\\ud" not in body.lower():
            raise
        return _read_strictly(reader, _without_lone_surrogates(body))


def _read_strictly(reader: Reader, body: Body) -> tuple[Envelope, tuple[Prompt, ...]]:
    """The fields that matter, and the prompts among them if they can be shown."""
    try:
        decoded = reader.decode(body)
    except msgspec.ValidationError:
        return _decode_envelope(body), ()
    if decoded.truncate_prompt_tokens and bytes(decoded.truncate_prompt_tokens) != b"null":
        return decoded, ()
    return decoded, reader.prompts(decoded)


def _without_lone_surrogates(body: Body) -> bytes:
    """The same JSON with a question mark for each lone surrogate, which msgspec refuses."""
    return json.dumps(json.loads(body.decode()), ensure_ascii=False).encode(errors="replace")


def _request(api: Api, envelope: Envelope, prompts: tuple[Prompt, ...], body_bytes: int) -> InferenceRequest:
    salt, previous = envelope.cache_salt, envelope.previous_response_id
    return InferenceRequest(
        api,
        checked_model(envelope.model),
        _text(bytes(salt)) if salt else "",
        prompts,
        envelope.stream == _TRUE,
        body_bytes,
        _positive_int(envelope.max_completion_tokens)
        or _positive_int(envelope.max_tokens)
        or _positive_int(envelope.max_output_tokens),
        _TRUE not in (envelope.store, envelope.background),
        _response_id(bytes(previous)) if previous else None,
    )


def checked_model(name: str | None) -> str | None:
    """The name of a model as a client wrote it; None when it is absent or empty.

    Raises:
        BadRequestError: it is longer than 1,024 characters.
    """
    if name and len(name) > _MAX_MODEL_CHARACTERS:
        raise BadRequestError(f"model is longer than {_MAX_MODEL_CHARACTERS} characters", param="model")
    return name or None


def _response_id(raw: bytes) -> str | None:
    """The response that is continued; of one that no endpoint can have made nothing is kept."""
    response_id = _text(raw)
    return response_id if 0 < len(response_id) <= LONGEST_RESPONSE_ID else None


def _positive_int(raw: msgspec.Raw) -> int | None:
    if not raw:
        return None
    digits = bytes(raw)
    if not digits.isdigit() or len(digits) > 18:
        return None
    return int(digits) or None


def _text(raw: bytes) -> str:
    """A string's text, nothing for null; any other JSON stands for itself, so that it is still told apart."""
    if raw == b"null":
        return ""
    return (string_bytes(raw) if raw.startswith(b'"') else raw).decode(errors="backslashreplace")


def _refuse_impossible_bytes(body: Body) -> None:
    """Refuse the bytes that end fields in a prompt; other broken UTF-8 shows where a string is read."""
    for value in NEVER_IN_UTF8:
        if value in body:
            raise BadRequestError(f"The body is not valid UTF-8 (byte {body.index(value)})")


def _refuse_impossible_steps(body: Body, step_bytes: int) -> Generator[None, None, None]:
    """The same in steps."""
    if body.isascii():
        return
    for start in range(0, len(body), step_bytes):
        found = [body.find(value, start, start + step_bytes) for value in NEVER_IN_UTF8]
        first = min((place for place in found if place >= 0), default=None)
        if first is not None:
            raise BadRequestError(f"The body is not valid UTF-8 (byte {first})")
        yield


def _refusal(body: Body, error: RecursionError | ValueError) -> BadRequestError:
    """What the client is told of a body that could not be read."""
    if isinstance(error, RecursionError):
        return BadRequestError("The body is nested too deeply")
    if isinstance(error, msgspec.ValidationError):
        return _wrong_type(error)
    return BadRequestError(_syntax_message(body, error))


def _wrong_type(error: msgspec.ValidationError) -> BadRequestError:
    if "$.model" in str(error):
        return BadRequestError(f"model must be a string: {str(error).partition(' - ')[0]}", param="model")
    return BadRequestError(f"The body must be a JSON object: {error}")


def _syntax_message(body: Body, error: ValueError) -> str:
    try:
        body.decode()
    except UnicodeDecodeError as fault:
        return f"The body is not valid UTF-8 (byte {fault.start})"
    where = "" if "(" in str(error) else f" (byte {len(body)})"
    return f"The body is not valid JSON: {error}{where}"
