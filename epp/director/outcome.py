"""From a finished exchange to the record that observers get."""

from typing import Final

from epp.director.chains import chain_summary
from epp.director.exchange import Exchange
from epp.director.record import RequestRecord
from epp.director.types import EndReason
from epp.director.views import Tier
from epp.endpoints.models import Resolution
from epp.errors import EppError
from epp.request.types import Api, InferenceRequest
from epp.response.types import Usage

__all__ = ["record_of"]

_CHAIN_SUMMARY_TOKENS: Final = 512
_GPU, _CPU = Tier.GPU, Tier.CPU
_UNRESOLVED: Final = Resolution(model="", base="", adapter="", endpoints=())
_UNREAD: Final = InferenceRequest(Api.OTHER, model=None, salt="", prompts=(), stream=False, body_bytes=0)


def record_of(
    exchange: Exchange,
    reason: EndReason,
    now: float,
    usage: Usage | None,
    response_bytes: int,
    error: EppError | None,
    *,
    with_chain: bool,
) -> RequestRecord:
    """Everything an observer may want to know; nothing is rendered. The chain only when it is asked for."""
    head, request = exchange.head, exchange.request or _UNREAD
    resolution, target = exchange.resolution or _UNRESOLVED, exchange.target
    failures, predicted = exchange.failures, exchange.predicted
    return RequestRecord(
        request_id=head.request_id,
        method=head.method,
        path=head.path,
        priority=exchange.priority,
        client=head.client,
        key_name=head.key_name,
        arrived=exchange.arrived,
        ended_at=now,
        reason=reason,
        api=request.api,
        model=request.model,
        target_model=resolution.model,
        adapter=resolution.adapter,
        rewrite=exchange.rewrite,
        first_byte_at=exchange.first_byte_at,
        prepare_s=exchange.prepare_s,
        decision_s=exchange.decision_s,
        status=exchange.status if error is None else error.status,
        error=None if error is None else error.code,
        dropped=None if error is None else error.reason,
        endpoint=None if target is None else target.address,
        slot=None if target is None else target.slot,
        attempts=exchange.attempts,
        executions=exchange.executions,
        retries=tuple([failure.kind for failure in failures]) if failures else (),
        ejected=tuple(exchange.ejected),
        stream=request.stream,
        request_bytes=exchange.body_bytes,
        response_bytes=response_bytes,
        prompt_tokens_estimated=None if exchange.chains is None else exchange.prompt_tokens,
        predicted_gpu_tokens=predicted.get(_GPU),
        predicted_cpu_tokens=predicted.get(_CPU),
        usage=usage,
        chain=_summary(exchange) if with_chain else (),
        decision=exchange.decision,
        ruled_out=exchange.ruled_out,
        views=exchange.state.views,
    )


def _summary(exchange: Exchange) -> tuple[int, ...]:
    if exchange.chains is None or not exchange.matches:
        return ()
    first = exchange.state.views[0]
    per_block = exchange.matches[first.name].block_tokens
    return chain_summary(exchange.chains, first, _CHAIN_SUMMARY_TOKENS, per_block)
