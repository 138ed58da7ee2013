"""What the director tells its observers when a request's life has ended."""

import msgspec

from epp.director.exclusions import NOBODY_RULED_OUT, RuledOut
from epp.director.types import EndReason, FailureKind
from epp.director.views import TierView
from epp.request.rewrites import Rewrite
from epp.request.types import Api
from epp.response.types import Usage
from epp.scheduling.contracts import Decision

__all__ = ["RequestRecord"]


class RequestRecord(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One request, from its arrival to its end; emitted exactly once, when everything is released.

    It keeps references and renders nothing. Times are monotonic seconds of the director's callers; durations
    are seconds. `decision` leads to the request's prompts and headers: an observer that keeps a record beyond
    the call keeps it without them.

    Attributes:
        request_id: id of the request, as sent to client and endpoint.
        method: of the request line.
        path: without the query.
        client: address of the caller; None when not known.
        key_name: name of the client's key; None when none was asked for, or it has none.
        api: schema of the body.
        model: as the client named it; None when absent, or when the body was never read.
        target_model: the resolved model or adapter; "" when nothing was resolved.
        adapter: the adapter's name; "" for a base model.
        rewrite: which rule sent it to which model; None when none did.
        priority: of the request; 0 unless an objective says otherwise.
        fairness_id: whom it is counted for.
        arrived: when its head was complete.
        ended_at: when its life ended.
        first_byte_at: first byte of the relayed answer's body; None when there was none.
        prepare_s: CPU time spent on parsing and hashing.
        decision_s: time spent on scheduling, all picks of this request; None when it came to no pick.
        reason: why it ended.
        status: status that the client got; None when it left before a head was sent.
        error: code of the router's own error; None when the answer is an endpoint's.
        dropped: reason sent in `x-llm-d-request-dropped-reason`; None when none was.
        endpoint: `host:port` of the last endpoint tried; None when none was.
        slot: its slot at that time; None when no endpoint was tried, or nobody said.
        attempts: endpoints the request was sent to or tried to connect to, repeats counted.
        executions: attempts that count against the retry contract's limit.
        retries: kind of each failed attempt, in order; the first `attempts - 1` of them were repeated.
        ejected: addresses that failures of this request ejected.
        stream: the client asked for server-sent events.
        request_bytes: body as it came.
        response_bytes: body as the endpoint sent it.
        prompt_tokens_estimated: estimated length of all prompts; None when no prompt is visible.
        predicted_gpu_tokens: hit that was predicted for `endpoint` in its GPU tier; None without such a view.
        predicted_cpu_tokens: what only its CPU tier was predicted to serve, beyond the GPU tier's hit; None
            without such a view.
        usage: what the endpoint reported; None when it reported nothing.
        chain: hash of the first prompt's prefix at each full 512 tokens, if the director is to tell it.
        decision: the last decision; None when it came to none.
        ruled_out: endpoints that were no candidates of it, and why.
        views: the views of the index that it was decided with.
    """

    request_id: str
    method: str
    path: str
    arrived: float
    ended_at: float
    reason: EndReason
    client: str | None = None
    key_name: str | None = None
    api: Api = Api.OTHER
    model: str | None = None
    target_model: str = ""
    adapter: str = ""
    rewrite: Rewrite | None = None
    priority: int = 0
    fairness_id: str = "default-flow"
    first_byte_at: float | None = None
    prepare_s: float = 0.0
    decision_s: float | None = None
    status: int | None = None
    error: str | None = None
    dropped: str | None = None
    endpoint: str | None = None
    slot: int | None = None
    attempts: int = 0
    executions: int = 0
    retries: tuple[FailureKind, ...] = ()
    ejected: tuple[str, ...] = ()
    stream: bool = False
    request_bytes: int = 0
    response_bytes: int = 0
    prompt_tokens_estimated: int | None = None
    predicted_gpu_tokens: int | None = None
    predicted_cpu_tokens: int | None = None
    usage: Usage | None = None
    chain: tuple[int, ...] = ()
    decision: Decision | None = None
    ruled_out: RuledOut = NOBODY_RULED_OUT
    views: tuple[TierView, ...] = ()
