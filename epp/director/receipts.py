"""Receipts: a decision with what was predicted for every candidate, and why the others were none."""

from typing import Any

from epp.director.exchange import Exchange
from epp.director.views import Tier, predicted_hits
from epp.endpoints.types import Endpoint
from epp.scheduling.contracts import Decision
from epp.scheduling.receipt import PredictedHit, header_value, render

__all__ = ["receipt", "receipt_line"]


def receipt(exchange: Exchange, picked: Endpoint) -> dict[str, Any]:
    """The whole receipt, for JSON; see `epp.scheduling.receipt.render` for its keys."""
    decision = _decided(exchange)
    hits = {e.slot: _hit(exchange, e) for e in decision.primary.candidates}
    return render(decision, picked, hits, exchange.ruled_out)


def receipt_line(exchange: Exchange) -> str | None:
    """One line for `x-epp-decision`; None when nothing was dispatched on a decision."""
    if exchange.decision is None or exchange.hold is None:
        return None
    picked = exchange.hold.endpoint
    if all(candidate.slot != picked.slot for candidate in exchange.decision.primary.candidates):
        return None
    hits = {picked.slot: _hit(exchange, picked)}
    return header_value(exchange.decision, picked, hits, exchange.ruled_out)


def _decided(exchange: Exchange) -> Decision:
    if exchange.decision is None:
        raise ValueError("the exchange was not scheduled")
    return exchange.decision


def _hit(exchange: Exchange, endpoint: Endpoint) -> PredictedHit:
    if exchange.chains is None:
        return PredictedHit()
    hits = predicted_hits(exchange.state.views, endpoint, exchange.matches, exchange.prompt_tokens)
    return PredictedHit(hits.get(Tier.GPU), hits.get(Tier.CPU))
