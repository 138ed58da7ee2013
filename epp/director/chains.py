"""From prompts to block hash chains, and from the index to matches."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypedDict

import msgspec

from epp.director.tokens import TokenRatios
from epp.director.views import TierView
from epp.prefix import PrefixIndex, chain_seed, hash_chain
from epp.request.types import InferenceRequest, Prompt
from epp.scheduling.contracts import NO_MATCH, PrefixMatch

__all__ = [
    "PromptChains",
    "block_tokens",
    "chain_summary",
    "first_chain",
    "hash_prompts",
    "match_views",
]

Chain = Sequence[int]

_TOKEN_ID_BYTES = 4
# Each chain is looked up and claimed within the one step of the pick, which must not hold others up: with a
# batch of 2,048 inputs it took 20 to 70 ms.
_MAX_CHAINS = 64
_TURN_BYTES = 1 << 20


class Cut(msgspec.Struct, frozen=True):
    """What one view takes of a request: the chains up to its cap, and their blocks together."""

    chains: tuple[Chain, ...]
    blocks: int


class PromptChains(msgspec.Struct, frozen=True):
    """The chains of a request's prompts, by block size in bytes.

    Of many prompts the first 64 have chains; the others count as text that is not hashed.
    `family` is the first block's hash, `data_bytes` the length of all prompts together, hashed or not.
    """

    by_block_bytes: dict[int, tuple[Chain, ...]]
    token_ids: bool
    family: int | None
    data_bytes: int
    _cuts: dict[tuple[int, int | None], Cut] = msgspec.field(default_factory=dict)  # asked for many times

    def cut(self, view: TierView) -> Cut:
        """The chains for `view`, cut at its cap."""
        key = (view.block_bytes, view.max_blocks)
        known = self._cuts.get(key)
        if known is None:
            known = self._cuts[key] = _cut(self.by_block_bytes[view.block_bytes], view.max_blocks)
        return known

    def of(self, view: TierView) -> tuple[Chain, ...]:
        """The chains for `view`, cut at its cap."""
        return self.cut(view).chains


def _cut(chains: tuple[Chain, ...], cap: int | None) -> Cut:
    lengths = [len(chain) for chain in chains]
    if cap is not None and max(lengths, default=0) > cap:
        chains = tuple(chain[:cap] for chain in chains)
        lengths = [len(chain) for chain in chains]
    return Cut(chains, sum(lengths))


def _caps(views: Iterable[TierView]) -> dict[int, int | None]:
    """Block size → the largest cap of the views that use it, None for no cap."""
    caps: dict[int, int | None] = {}
    for view in views:
        known = caps.get(view.block_bytes, 0)
        caps[view.block_bytes] = (
            None if known is None or view.max_blocks is None else max(known, view.max_blocks)
        )
    return caps


def _seed(prompt: Prompt, base: str, adapter: str, salt: str) -> int:
    kind = "ids" if prompt.token_ids else "text"
    # Salts are the clients' and without number; names of models are few.
    return chain_seed(base, adapter, salt, kind) if salt else _unsalted_seed(base, adapter, kind)


@lru_cache(256)
def _unsalted_seed(base: str, adapter: str, kind: str) -> int:
    return chain_seed(base, adapter, "", kind)


def hash_prompts(
    request: InferenceRequest,
    base: str,
    adapter: str,
    views: Sequence[TierView],
    beside: Sequence[TierView] = (),
) -> Generator[None, None, PromptChains]:
    """Hash the first 64 prompts once for each block size in use; yields about each MB.

    `base` is the identity of the base model (aliases share it), `adapter` the adapter's name. The views
    `beside` get their chains too, and have no say in the family.
    """
    by_block_bytes: dict[int, tuple[Chain, ...]] = {}
    for block_bytes, cap in _caps((*views, *beside)).items():
        chains, since_turn = [], 0
        for prompt in request.prompts[:_MAX_CHAINS]:
            seed = _seed(prompt, base, adapter, request.salt)
            chain = yield from hash_chain(prompt.data, seed, block_bytes, cap)
            chains.append(chain)
            since_turn += len(chain) * block_bytes
            if since_turn > _TURN_BYTES:
                since_turn = 0
                yield
        by_block_bytes[block_bytes] = tuple(chains)
    sizes = dict.fromkeys(view.block_bytes for view in views)
    first = next((chain[0] for size in sizes for chain in by_block_bytes[size] if chain), None)
    return PromptChains(
        by_block_bytes,
        token_ids=any(p.token_ids for p in request.prompts),
        family=first,
        data_bytes=sum([len(p.data) for p in request.prompts]),
    )


def prompt_tokens(request: InferenceRequest, ratio: float) -> int:
    """Estimated length of all prompts, `ratio` being bytes per token of text."""
    ids = sum([len(p.data) for p in request.prompts if p.token_ids])
    text = text_bytes(request)
    return ids // _TOKEN_ID_BYTES + int(text / ratio)


def text_bytes(request: InferenceRequest) -> int:
    """Bytes of the prompts that are text."""
    return sum([len(p.data) for p in request.prompts if not p.token_ids])


def block_tokens(chains: PromptChains, ratios: TokenRatios, model: str) -> dict[int, float]:
    """What one block of this request is worth, by block size: exact for token ids, learned for text."""
    ratio = _TOKEN_ID_BYTES if chains.token_ids else ratios.bytes_per_token(model, chains.family)
    return {block_bytes: block_bytes / ratio for block_bytes in chains.by_block_bytes}


def match_views(
    index: PrefixIndex, views: Sequence[TierView], chains: PromptChains, block_tokens: Mapping[int, float]
) -> dict[str, PrefixMatch]:
    """Producer name → how much of the request each endpoint holds in that view.

    A view never holds more of a prompt than its cap, since no more is recorded in it.
    """
    by_size: dict[int, list[TierView]] = {}
    for view in views:
        by_size.setdefault(view.block_bytes, []).append(view)
    matches = {view.name: NO_MATCH for view in views}  # in their order
    for size, alike in by_size.items():
        numbers = [view.index_view for view in alike]
        per_prompt = [index.match(chain, numbers) for chain in chains.by_block_bytes[size]]
        for place, view in enumerate(alike):
            segments = _summed([by_view[place] for by_view in per_prompt])
            matches[view.name] = PrefixMatch(segments, chains.cut(view).blocks, block_tokens[size])
    return matches


class _FirstChain(TypedDict):
    chain: Chain
    chain_block_tokens: float


def first_chain(chains: PromptChains | None, block_tokens: Mapping[int, float]) -> _FirstChain:
    """The first prompt's hashes as a cycle has them, in the finest blocks there are."""
    if chains is None or not chains.by_block_bytes:
        return {"chain": (), "chain_block_tokens": 0.0}
    size = min(chains.by_block_bytes)
    of_prompts = chains.by_block_bytes[size]
    return {"chain": of_prompts[0] if of_prompts else (), "chain_block_tokens": block_tokens[size]}


def _summed(per_prompt: list[list[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    """Segments of several prompts added up by endpoint; those of one prompt are what they are."""
    if len(per_prompt) == 1:
        return tuple(per_prompt[0])
    by_slot: dict[int, int] = {}
    for segments in per_prompt:
        for mask, blocks in segments:
            for slot in _slots(mask):
                by_slot[slot] = by_slot.get(slot, 0) + blocks
    by_blocks: dict[int, int] = {}
    for slot, blocks in by_slot.items():
        by_blocks[blocks] = by_blocks.get(blocks, 0) | 1 << slot
    return tuple((by_blocks[blocks], blocks) for blocks in sorted(by_blocks, reverse=True))


def _slots(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def chain_summary(
    chains: PromptChains, view: TierView, tokens_between: int, tokens_per_block: float
) -> tuple[int, ...]:
    """Hashes of the first prompt's chain in `view` at each full `tokens_between` tokens."""
    first = chains.of(view)[0]
    step = max(1, round(tokens_between / tokens_per_block))
    return tuple(first[step - 1 :: step])
