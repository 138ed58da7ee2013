"""What a router has learned, as it can be kept for the next process: index and bytes per token.

What is kept of an endpoint holds for one incarnation of it: the next process takes it over once the endpoint
has shown, by its uid and its metrics, that it is still the one that it was.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from epp.director.chains import block_sizes, hash_prompts
from epp.director.state import State
from epp.director.tokens import TokenRatios
from epp.director.views import Tier, TierView
from epp.endpoints.types import Endpoint, EndpointMetrics
from epp.endpoints.vitals import Vitals
from epp.prefix import drain
from epp.prefix.residency import Residency
from epp.prefix.saving import Entries, RunTable, entries_of, restore_entries
from epp.request import Api, parse_request

__all__ = [
    "Saved", "SavedEndpoint", "SavedHeader", "SavedList", "SavedView", "collect", "differences",
    "hashing_fingerprint", "restore", "restore_ratios",
]  # fmt: skip

_PROBES: Final = (
    (Api.COMPLETIONS, b'{"model":"m","prompt":"0123456789abcdef0123456789abcdef"}'),
    (Api.COMPLETIONS, b'{"model":"m","prompt":[1,2,3,4,5,6,7,8]}'),
    (
        Api.CHAT,
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}],"tools":[{}]}',
    ),
)
_FAMILIES_A_STEP: Final = 512


class SavedView(msgspec.Struct, frozen=True):
    """A view of the index; what it holds depends on all three."""

    name: str
    tier: str
    block_bytes: int


class SavedEndpoint(msgspec.Struct, frozen=True):
    """Who an endpoint was: its identity, and what of its last metrics tells one process from another."""

    address: str
    uid: str = ""
    process_start: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    block_tokens: int | None = None
    models: tuple[str, ...] = ()


class SavedList(msgspec.Struct, frozen=True):
    """Which list follows: numbers of a view and an endpoint, and how many entries it has."""

    view: int
    endpoint: int
    entries: int


class SavedHeader(msgspec.Struct):
    """All but the arrays. `saved_at` is the time by the wall clock, `fingerprint` that of the hashing."""

    saved_at: float
    fingerprint: str
    views: list[SavedView]
    endpoints: list[SavedEndpoint]
    lists: list[SavedList]
    models: dict[str, float]
    families: list[tuple[str, int, float]]


class Saved(msgspec.Struct):
    """A saved state; `entries` belong to the header's lists, in their order."""

    header: SavedHeader
    runs: RunTable
    entries: list[Entries]


@lru_cache(1)
def hashing_fingerprint() -> str:
    """Differs whenever prompts are read or hashed in another way than they were."""
    view = TierView("", 0, Tier.GPU, 8, None, auto_tune=True, capacity_blocks=1)
    found: list[int] = []
    for api, body in _PROBES:
        chains = drain(hash_prompts(parse_request(api, body), "m", "a", block_sizes([view])))
        found += [chain[-1] for chain in chains.of(view)]
    return "-".join(f"{number:016x}" for number in found)


def collect(state: State, saved_at: float) -> Generator[None, None, Saved]:
    """Copy what is known, in steps far below a millisecond, between which requests may be served."""
    views = (*state.views, *state.shadow_views)
    header = SavedHeader(
        saved_at,
        hashing_fingerprint(),
        [SavedView(view.name, view.tier.value, view.block_bytes) for view in views],
        [],
        [],
        state.ratios.models(),
        state.ratios.families(),
    )
    saved = Saved(header, RunTable(), [])
    read: list[Residency] = []
    for address in [endpoint.address for endpoint in state.table.pool.endpoints]:
        yield
        endpoint = state.table.endpoint(address)
        if endpoint is not None:
            yield from _collect_endpoint(state, views, endpoint, saved, read)
    _leave_out_what_was_lost(saved, read)
    return saved


def _leave_out_what_was_lost(saved: Saved, read: Sequence[Residency]) -> None:
    """A cache may have been reset after its list was read."""
    kept = [place for place, residency in enumerate(read) if residency.open]
    saved.header.lists = [saved.header.lists[place] for place in kept]
    saved.entries = [saved.entries[place] for place in kept]


def _collect_endpoint(
    state: State, views: Iterable[TierView], endpoint: Endpoint, saved: Saved, read: list[Residency]
) -> Generator[None, None, None]:
    number = len(saved.header.endpoints)
    saved.header.endpoints.append(_identity(endpoint))
    for place, view in enumerate(views):
        residency = state.index.residency(view.index_view, endpoint.slot)
        if residency is None:
            continue
        entries = yield from entries_of(residency, saved.runs)
        if entries is not None:
            read.append(residency)
            saved.header.lists.append(SavedList(place, number, len(entries.runs)))
            saved.entries.append(entries)


def _identity(endpoint: Endpoint) -> SavedEndpoint:
    metrics = endpoint.metrics or EndpointMetrics()
    return SavedEndpoint(
        endpoint.address,
        endpoint.spec.uid,
        metrics.process_start,
        metrics.prompt_tokens_total,
        metrics.generation_tokens_total,
        metrics.block_tokens,
        _base_models(endpoint),
    )


def _base_models(endpoint: Endpoint) -> tuple[str, ...]:
    """Adapters come and go in one incarnation."""
    return tuple(sorted(model.id for model in endpoint.models or () if model.parent is None))


def differences(saved: SavedEndpoint, endpoint: Endpoint) -> str | None:
    """Why `endpoint` is not the incarnation that was saved; None if it is, as far as anything tells.

    It must have been scraped. Models that it has not told yet are not compared.
    """
    metrics = endpoint.metrics or EndpointMetrics()
    if saved.uid != endpoint.spec.uid:
        return "another pod has its address"
    if not saved.uid and (saved.process_start is None or metrics.process_start is None):
        return "nothing tells whether it is the same process"
    before = Vitals()
    before.note(
        EndpointMetrics(
            process_start=saved.process_start,
            prompt_tokens_total=saved.prompt_tokens,
            generation_tokens_total=saved.generation_tokens,
        )
    )
    if before.restarted(metrics):
        return "its engine was restarted"
    if metrics.awake is False:
        return "its engine sleeps"
    if saved.block_tokens != metrics.block_tokens:
        return f"its engine block is {metrics.block_tokens} tokens and was {saved.block_tokens}"
    models = _base_models(endpoint)
    if saved.models and models and saved.models != models:
        return f"it serves {', '.join(models)} and served {', '.join(saved.models)}"
    return None


def restore(state: State, saved: Saved, endpoint: Endpoint) -> Generator[None, None, int]:
    """Take over what was saved of an endpoint, in short steps; how many blocks its lists hold then.

    Stops when the incarnation of the endpoint ends. Lists of views that are no more are left out.

    Raises:
        ValueError: the lists do not fit the runs.
    """
    views = _views_by_identity((*state.views, *state.shadow_views))
    blocks = 0
    for described, entries in zip(saved.header.lists, saved.entries, strict=True):
        view = views.get(saved.header.views[described.view])
        if view is None or saved.header.endpoints[described.endpoint].address != endpoint.address:
            continue
        for _ in restore_entries(state.index, view.index_view, endpoint.slot, entries, saved.runs):
            yield
            now = state.table.endpoint(endpoint.address)
            if now is None or now.incarnation != endpoint.incarnation:
                return blocks
        blocks += state.index.blocks(view.index_view, endpoint.slot)
    return blocks


def _views_by_identity(views: Iterable[TierView]) -> Mapping[SavedView, TierView]:
    return {SavedView(view.name, view.tier.value, view.block_bytes): view for view in views}


def restore_ratios(ratios: TokenRatios, header: SavedHeader) -> Generator[None, None, None]:
    """Start with what was learned before; what this process has learned itself stands above it."""
    for model, ratio in header.models.items():
        ratios.set_initial(model, ratio)
    for done, (model, family, ratio) in enumerate(reversed(header.families), 1):
        ratios.set_initial_family(model, family, ratio)
        if not done % _FAMILIES_A_STEP:
            yield
