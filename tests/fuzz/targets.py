"""What is fuzzed: each target takes bytes, and raises only if something is wrong with the product.

A refusal in the error tree is an answer. Everything else that comes out of a target is a fault, and so is an
outcome that depends on how the bytes were cut.
"""

import argparse
import json
from collections.abc import Callable
from itertools import pairwise
from math import inf

from epp.compose import compose
from epp.config import load_any_config, load_config
from epp.config.builtin import builtin_config
from epp.config.settings_load import load_settings
from epp.director.chains import hash_prompts
from epp.director.reading import read_request
from epp.director.types import RequestHead
from epp.errors import ConfigError, EppError
from epp.http.response import ResponseReader
from epp.http.types import UpstreamSettings
from epp.request import Api, Body, api_of, decode_body, parse_steps, with_model
from epp.request.steps import result_of
from epp.response import answer_names
from epp.response.observer import ResponseObserver
from epp.scrape.exposition import PageError
from epp.scrape.page import PageReader

__all__ = ["TARGETS"]

LIMIT_BYTES = 100_000
_PATHS = (
    "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/v1/embeddings", "/tokenize",
    "/rerank", "/score", "/v1/audio/transcriptions", "/inference/v1/generate", "/v1/unknown",
)  # fmt: skip
_CODINGS = ("identity", "gzip", "deflate", "br")
_PAGES = PageReader()
_SIZES = compose(load_config(builtin_config())).state.block_sizes
_LIMITS = UpstreamSettings(max_head_bytes=4096, max_headers=50)


def body(data: bytes) -> None:
    """The body of a request: two bytes choose path and content coding."""
    if len(data) < 2:
        return
    path, coding = _PATHS[data[0] % len(_PATHS)], _CODINGS[data[1] % len(_CODINGS)]
    head = RequestHead("id", "POST", path, {"content-type": "application/json", "content-encoding": coding})
    try:
        request = read_request(head, data[2:], LIMIT_BYTES)
    except EppError as error:
        _check(200 <= error.status < 500, f"status {error.status}")
        return
    for _ in hash_prompts(request, "m", "", _SIZES):
        pass
    if request.api is not Api.OTHER:
        _rewrite(decode_body(coding, data[2:], LIMIT_BYTES))
    if coding == "identity":
        _read_in_steps(path, data[2:])


def _rewrite(plain: Body) -> None:
    """The model alone is another one."""
    replaced = result_of(with_model(plain, 'a"'))
    try:
        before, after = json.loads(plain), json.loads(replaced)
    except (ValueError, RecursionError):  # numbers of more digits than Python reads, depths that it does not
        return
    _check(after == {**before, "model": 'a"'}, "more than the model was rewritten")


def _read_in_steps(path: str, data: bytes) -> None:
    """What can be read at once can be read in small steps, but for text that is none."""
    try:
        result_of(parse_steps(api_of(path), data, 16))
    except EppError as error:
        is_text = b"\\ud" not in data.lower() and data.decode("utf-8", "replace").encode() == data
        _check(not is_text, f"refused in steps alone: {error}")


def stream(data: bytes) -> None:
    """An answer, as events or as one document, whole and cut in two places."""
    if len(data) < 3:
        return
    kind = "text/event-stream" if data[0] % 2 else "application/json"
    rest = data[3:]
    cuts = sorted({0, data[1] % (len(rest) + 1), data[2] % (len(rest) + 1), len(rest)})
    whole = _usage(kind, [rest])
    pieces = [rest[a:b] for a, b in pairwise(cuts)]
    _check(_usage(kind, pieces) == whole, "cut differently, read differently")
    _check(_renamed(kind, pieces) == _renamed(kind, [rest]), "cut differently, renamed differently")


def _usage(kind: str, pieces: list[bytes]) -> object:
    observer = ResponseObserver(kind, None, LIMIT_BYTES)
    for piece in pieces:
        observer.feed(piece)
    return observer.finish()


def _renamed(kind: str, pieces: list[bytes]) -> bytes:
    names = answer_names(kind, None, "m")
    return b"".join([names.feed(piece) for piece in pieces]) if names else b""


def metrics(data: bytes) -> None:
    """A page of metrics."""
    try:
        page = _PAGES.read(data)
    except PageError:
        return
    told = page.metrics
    _check(told.kv_usage is None or 0 <= told.kv_usage <= 1, f"usage {told.kv_usage}")
    for number in (told.waiting, told.running, told.prompt_tokens_total, told.generation_tokens_total):
        _check(number is None or 0 <= number < inf, f"{number} is no count")


def configuration(data: bytes) -> None:
    """A file of configuration."""
    _refused_or_fine(lambda: load_any_config(data.decode("utf-8", "replace"), "fuzz"))


def settings(data: bytes) -> None:
    """A file of settings."""
    text = data.decode("utf-8", "replace")
    arguments = argparse.Namespace(settings="fuzz.yaml")

    def read_file(name: str) -> str:
        if name == "fuzz.yaml":
            return text
        raise FileNotFoundError(2, "No such file or directory")

    _refused_or_fine(lambda: load_settings(arguments, {}, read_file))


def _refused_or_fine(load: Callable[[], object]) -> None:
    try:
        load()
    except ConfigError as error:
        _check(bool(error.problems), "refused without a reason")
        _check(all(problem.message for problem in error.problems), "a problem without a message")


def response(data: bytes) -> None:
    """What an endpoint sends: one response, whole and byte by byte."""
    whole = _read([data])
    single = _read([data[i : i + 1] for i in range(len(data))])
    _check(whole[:2] == single[:2] or whole[3] or single[3], "cut differently, read differently")


def _read(pieces: list[bytes]) -> tuple[object, bytes, bool, bool]:
    """Head, body, whether it is complete, and whether it was refused."""
    reader = ResponseReader(_LIMITS)
    reader.begin(head_only=False)
    taken = b""
    for piece in pieces:
        reader.feed(piece)
        taken += reader.take_body()
        if reader.complete or reader.error is not None:
            break
    return reader.head, taken, reader.complete, reader.error is not None


def _check(holds: object, what: str) -> None:
    if not holds:
        raise AssertionError(what)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (body, stream, metrics, configuration, settings, response)
}
