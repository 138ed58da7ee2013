"""What answers teach: bytes per token and how long answers are."""

from epp.director.chains import PromptChains, block_tokens
from epp.director.claims import OutputLengths
from epp.director.exchange import Exchange
from epp.director.tokens import CounterRatios, TokenRatios
from epp.response.types import Usage

__all__ = ["Learning", "claimable"]


class Learning:
    """Lives as long as the process, whatever configuration is in effect."""

    def __init__(self, ratios: TokenRatios) -> None:
        self._ratios = ratios
        self._outputs = OutputLengths()
        self.counter_ratios = CounterRatios(ratios)

    def expected_output(self, exchange: Exchange) -> int:
        """Tokens of the answer that this request will get."""
        limit = exchange.request.max_output_tokens if exchange.request else None
        model = exchange.resolution.model if exchange.resolution else ""
        return self._outputs.expected(model, limit)

    def worth(self, exchange: Exchange) -> dict[int, float]:
        """What the blocks of a claim are worth by what is known after the answer."""
        if exchange.chains is None or exchange.resolution is None:
            return {}
        return block_tokens(exchange.chains, self._ratios, exchange.resolution.model)

    def learn(self, exchange: Exchange, usage: Usage | None) -> None:
        """The answer has ended; `usage` is what the endpoint reported."""
        request, hold, resolution = exchange.request, exchange.hold, exchange.resolution
        if request is None or hold is None or resolution is None or not hold.confirmed:
            return
        if not request.api.computes:
            return
        chains, model, slot = exchange.chains, resolution.model, hold.endpoint.slot
        is_text = chains is not None and not chains.token_ids
        if usage is None or usage.prompt_tokens is None:
            if is_text:
                self.counter_ratios.sent(slot, model, exchange.text_bytes)
            else:
                self.counter_ratios.spoiled(slot)
            return
        self.counter_ratios.spoiled(slot)
        if is_text and chains is not None:
            self._ratios.learn(model, exchange.text_bytes, usage.prompt_tokens, chains.family)
        if usage.completion_tokens is not None:
            self._outputs.learn(model, usage.completion_tokens)


def claimable(exchange: Exchange) -> PromptChains | None:
    """The chains that the endpoint will compute; tokenizing a prompt leaves nothing in a cache."""
    request = exchange.request
    return exchange.chains if request is not None and request.api.computes else None
