"""From a request's head and body to what routing needs of it."""

from collections.abc import Generator
from typing import Final

from epp.director.types import RequestHead
from epp.request import (
    LARGE_BYTES,
    Body,
    api_of,
    checked_model,
    decode_body,
    decode_steps,
    is_manifold,
    parse_request,
    parse_steps,
    stored_response_of,
)
from epp.request.types import Api, InferenceRequest

__all__ = ["is_large", "read_request", "read_steps"]

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def read_request(
    head: RequestHead, body: Body | None, limit_bytes: int, model: str | None = None
) -> InferenceRequest:
    """Decode and parse `body` if its path shows a prompt; `limit_bytes` is the most it may inflate to.

    None: the body is forwarded unread, and never twice; `model` is what it asks for, where that is known.

    Raises:
        BadRequestError, PayloadTooLargeError, UnsupportedEncodingError.
    """
    if body is None:
        return _unparsed(head, 0, replay_safe=False, model=checked_model(model))
    api = _api_of(head)
    if api is Api.OTHER:
        return _unparsed(head, len(body), replay_safe=head.method in _SAFE_METHODS)
    return parse_request(api, decode_body(head.headers.get("content-encoding"), body, limit_bytes))


def read_steps(head: RequestHead, body: Body, limit_bytes: int) -> Generator[None, None, InferenceRequest]:
    """`read_request` of a large body; yields between its steps. Receiving it was one."""
    api = _api_of(head)
    if api is Api.OTHER:
        return read_request(head, body, limit_bytes)
    yield
    plain = yield from decode_steps(head.headers.get("content-encoding"), body, limit_bytes)
    if plain is not body:
        yield
    return (yield from parse_steps(api, plain))


def _api_of(head: RequestHead) -> Api:
    return api_of(head.path) if head.method == "POST" else Api.OTHER


def is_large(head: RequestHead, body: Body) -> bool:
    """Whether `body` should be read in steps; a compressed one may become large."""
    return len(body) > LARGE_BYTES or "content-encoding" in head.headers or is_manifold(body)


def _unparsed(
    head: RequestHead, body_bytes: int, *, replay_safe: bool, model: str | None = None
) -> InferenceRequest:
    return InferenceRequest(
        api=Api.OTHER,
        model=model,
        salt="",
        prompts=(),
        stream=False,
        body_bytes=body_bytes,
        replay_safe=replay_safe,
        stored_response=stored_response_of(head.path),
    )
