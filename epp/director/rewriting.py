"""The rules that send requests to another model than the one they name, applied to a request."""

from collections.abc import Callable, Generator

from epp.director.exchange import Exchange, RewrittenBody
from epp.director.state import State
from epp.endpoints.models import Resolution
from epp.errors import ModelNotFoundError
from epp.request import ModelRewrites, Rewrite, decode_steps, with_model
from epp.request.types import Api, Body, InferenceRequest
from epp.response import AnswerNames, answer_names

__all__ = ["Rewriter", "names_for", "resolve"]

_SHOWN = 200  # characters of a client's model name that an error repeats


class Rewriter:
    """Chooses once for each request.

    Attributes:
        rules: those in effect; whoever finds more changes them in place.
    """

    __slots__ = ("_limit_bytes", "_random", "rules")

    def __init__(self, rules: ModelRewrites, random: Callable[[], float], limit_bytes: int) -> None:
        """`random` is in [0, 1); `limit_bytes` is the most that a compressed body may inflate to."""
        self.rules = rules
        self._random = random
        self._limit_bytes = limit_bytes

    def steps(self, exchange: Exchange, body: Body | None) -> Generator[None, None, bool]:
        """Choose the model that a parsed request goes to, and put it into the body; yields if it is large.

        What nobody has read stays as it is. Returns whether the body is another one.

        Raises:
            BadRequestError: the body has a shape in which the model cannot be replaced.
        """
        request = exchange.request
        if body is None or request is None or request.api is Api.OTHER:
            return False
        rewrite = exchange.rewrite = self.rules.choose(request.model, self._random)
        if rewrite is None or rewrite.target == request.model:
            return False
        coding = exchange.head.headers.get("content-encoding")
        plain = yield from decode_steps(coding, body, self._limit_bytes)
        replaced = yield from with_model(plain, rewrite.target)
        exchange.rewritten = RewrittenBody(replaced, decoded=plain is not body)
        return True


def names_for(
    exchange: Exchange, status: int, content_type: str | None, content_encoding: str | None
) -> AnswerNames | None:
    """Who puts the client's name for the model into an answer with this head; None: it passes as it is."""
    rewrite = exchange.rewrite
    if rewrite is None or rewrite.asked is None or not rewrite.renames or not 200 <= status < 300:
        return None
    return answer_names(content_type, content_encoding, rewrite.asked)


def resolve(state: State, request: InferenceRequest, rewrite: Rewrite | None) -> Resolution:
    """What the model of a request means in the pool: the one that it names, or that it was rewritten to.

    Raises:
        BadRequestError, ModelNotFoundError: as of `ModelCatalog.resolve`.
    """
    if rewrite is not None:
        return _resolve_rewritten(state, rewrite)
    if request.model is None and request.api is Api.OTHER:
        return Resolution(model="", base="", adapter="", endpoints=state.table.pool.endpoints)
    return state.catalog.resolve(state.table.pool, request.model)


def _resolve_rewritten(state: State, rewrite: Rewrite) -> Resolution:
    try:
        return state.catalog.resolve(state.table.pool, rewrite.target)
    except ModelNotFoundError:  # the client is not told of a name that it did not give
        asked = "the request" if rewrite.asked is None else f"model {rewrite.asked[:_SHOWN]!r}"
        message = f"{asked} is rewritten to a model that does not exist"
        raise ModelNotFoundError(message, param="model") from None
