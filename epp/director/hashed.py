"""A request that enters below the parser: already read, its prompt given as chains of block hashes."""

from epp.director.chains import PromptChains
from epp.director.exchange import Exchange
from epp.director.rewriting import resolve
from epp.director.state import State
from epp.request.types import InferenceRequest

__all__ = ["prepare_hashed"]


def prepare_hashed(
    state: State,
    exchange: Exchange,
    request: InferenceRequest,
    chains: PromptChains | None,
    prompt_tokens: int,
    text_bytes: int = 0,
) -> None:
    """In place of `Director.prepare`, for simulation and replay: `request` has no prompts, `chains` do.

    Raises:
        BadRequestError, ModelNotFoundError.
    """
    exchange.request = request
    exchange.body_bytes = request.body_bytes
    if request.model is not None:
        exchange.resolution = resolve(state, request, exchange.rewrite)
    exchange.chains = chains
    exchange.prompt_tokens = prompt_tokens
    exchange.text_bytes = text_bytes
