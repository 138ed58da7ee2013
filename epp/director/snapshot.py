"""What `/debug/state` returns and `epp explain` reads: everything a decision depends on, as JSON.

{"now": seconds, "picks": N, "ratios": {model: bytes per token},
 "endpoints": [{"url", "labels", "uid", "metrics": {…} or null, "fresh", "draining", "models": […] or
                null, "requests", "tokens", "last_picked", "ejected": cause or null, "age_s"}, …],
 "index": see `epp.prefix.transfer`}
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from epp.director.state import State
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import Endpoint, EndpointMetrics, EndpointSpec, ModelInfo
from epp.prefix.transfer import IndexDump, dump_index, load_index

__all__ = ["PoolState", "read_state", "restore", "state_slices"]

_ENDPOINTS_A_SLICE: Final = 16


class ModelState(msgspec.Struct):
    """An entry of an endpoint's models."""

    id: str
    parent: str | None = None
    root: str | None = None


class EndpointState(msgspec.Struct, kw_only=True):
    """One endpoint; `ejected` and `age_s` are for people, `restore` leaves them out."""

    url: str
    labels: dict[str, str] = {}
    uid: str = ""
    metrics: EndpointMetrics | None = None
    fresh: bool = False
    draining: bool = False
    models: list[ModelState] | None = None
    requests: int = 0
    tokens: int = 0
    last_picked: int = 0
    ejected: str | None = None
    age_s: float = 0.0


class PoolState(msgspec.Struct, kw_only=True):
    """The whole snapshot; `index` is None when it was left out."""

    now: float = 0.0
    picks: int = 0
    ratios: dict[str, float] = {}
    endpoints: list[EndpointState] = []
    index: IndexDump | None = None


_encode: Final = msgspec.json.Encoder().encode


def state_slices(state: State, now: float, *, with_index: bool) -> Iterator[bytes]:
    """The snapshot as JSON, a piece at a time; all pieces are of the pool at the first one's moment."""
    pool = state.table.pool
    ratios = state.ratios.models()
    yield b'{"now":%b,"picks":%d,"ratios":%b,"endpoints":[' % (
        _encode(now),
        state.ledger.picks,
        _encode(ratios),
    )
    for start in range(0, len(pool.endpoints), _ENDPOINTS_A_SLICE):
        part = [_endpoint_state(state, e, now) for e in pool.endpoints[start : start + _ENDPOINTS_A_SLICE]]
        yield (b"," if start else b"") + _encode(part)[1:-1]
    yield b"]"
    if with_index:
        yield b',"index":'
        names = {view.index_view: view.name for view in state.views}
        yield from dump_index(state.index, names, {e.slot: e.address for e in pool.endpoints})
    yield b"}"


def _endpoint_state(state: State, endpoint: Endpoint, now: float) -> EndpointState:
    ejection = state.health.ejected(endpoint, now)
    models = endpoint.models
    return EndpointState(
        url=endpoint.spec.url,
        labels=dict(endpoint.spec.labels),
        uid=endpoint.spec.uid,
        metrics=endpoint.metrics,
        fresh=endpoint.fresh,
        draining=endpoint.draining,
        models=None if models is None else [ModelState(m.id, m.parent, m.root) for m in models],
        requests=state.ledger.requests[endpoint.slot],
        tokens=state.ledger.tokens[endpoint.slot],
        last_picked=state.ledger.last_picked[endpoint.slot],
        ejected=None if ejection is None else str(ejection.cause),
        age_s=round(now - endpoint.added_at, 3),
    )


def read_state(text: bytes) -> PoolState:
    """Read a snapshot.

    Raises:
        ValueError: it is not one; says where.
    """
    try:
        return msgspec.json.decode(text, type=PoolState)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a snapshot of /debug/state: {error}") from None


def restore(state: State, snapshot: PoolState) -> None:
    """Bring a fresh core into the state of `snapshot`, so that it decides as the router it is from.

    Ejections and slow start are not restored: they depend on what comes after.

    Raises:
        ValueError: an endpoint or a run cannot be read.
    """
    specs = [_spec(e) for e in snapshot.endpoints]
    added_at = -float("inf")
    state.table.sync(specs, added_at)
    for spec, told in zip(specs, snapshot.endpoints, strict=True):
        _restore_endpoint(state, spec.address, told, snapshot.now)
    state.ledger.picks = snapshot.picks
    for model, ratio in snapshot.ratios.items():
        state.ratios.set_initial(model, ratio)
    if snapshot.index is not None:
        views = {view.name: view.index_view for view in state.views}
        slots = {e.address: e.slot for e in state.table.pool.endpoints}
        load_index(state.index, snapshot.index, views, slots)


def _spec(told: EndpointState) -> EndpointSpec:
    plain = parse_endpoint(told.url)
    return EndpointSpec(plain.scheme, plain.host, plain.port, told.labels, told.uid)


def _restore_endpoint(state: State, address: str, told: EndpointState, now: float) -> None:
    table, ledger = state.table, state.ledger
    if told.metrics is not None:
        table.update_metrics(address, told.metrics, now if told.fresh else -float("inf"))
    if told.models is not None:
        table.set_models(address, tuple(ModelInfo(m.id, m.parent, m.root) for m in told.models), now)
    table.mark_draining(address, draining=told.draining)
    slot = table.pool.by_address[address].slot
    ledger.requests[slot], ledger.tokens[slot] = told.requests, told.tokens
    ledger.last_picked[slot] = told.last_picked
