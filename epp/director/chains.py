"""From prompts to block hash chains, and from the index to matches."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from epp.director.tokens import TokenRatios
from epp.director.views import TierView
from epp.prefix import PrefixIndex, chain_seed, hash_chain
from epp.request.types import InferenceRequest, Prompt
from epp.scheduling.contracts import PrefixMatch

__all__ = ["PromptChains", "chain_summary", "hash_prompts", "match_views", "unhashed_bytes", "valued"]

Chain = Sequence[int]

_TOKEN_ID_BYTES = 4


@dataclass(frozen=True, slots=True)
class PromptChains:
    """The chains of all prompts of a request, by block size in bytes.

    `family` is the first block's hash, `data_bytes` the length of all prompts together, hashed or not.
    """

    by_block_bytes: dict[int, tuple[Chain, ...]]
    token_ids: bool
    family: int | None
    data_bytes: int

    def of(self, view: TierView) -> tuple[Chain, ...]:
        """The chains for `view`, cut at its cap."""
        chains = self.by_block_bytes[view.block_bytes]
        cap = view.max_blocks
        if cap is None or all(len(chain) <= cap for chain in chains):
            return chains
        return tuple(chain[:cap] for chain in chains)


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
    return chain_seed(base, adapter, salt, "ids" if prompt.token_ids else "text")


def hash_prompts(
    request: InferenceRequest, base: str, adapter: str, views: Sequence[TierView]
) -> Generator[None, None, PromptChains]:
    """Hash every prompt once for each block size in use; yields about each MB.

    `base` is the identity of the base model (aliases share it), `adapter` the adapter's name.
    """
    by_block_bytes: dict[int, tuple[Chain, ...]] = {}
    for block_bytes, cap in _caps(views).items():
        chains = []
        for prompt in request.prompts:
            seed = _seed(prompt, base, adapter, request.salt)
            chains.append((yield from hash_chain(prompt.data, seed, block_bytes, cap)))
        by_block_bytes[block_bytes] = tuple(chains)
    first = next((chain[0] for chains in by_block_bytes.values() for chain in chains if chain), None)
    return PromptChains(
        by_block_bytes,
        token_ids=any(p.token_ids for p in request.prompts),
        family=first,
        data_bytes=sum(len(p.data) for p in request.prompts),
    )


def prompt_tokens(request: InferenceRequest, ratio: float) -> int:
    """Estimated length of all prompts, `ratio` being bytes per token of text."""
    ids = sum(len(p.data) for p in request.prompts if p.token_ids)
    text = sum(len(p.data) for p in request.prompts if not p.token_ids)
    return ids // _TOKEN_ID_BYTES + int(text / ratio)


def text_bytes(request: InferenceRequest) -> int:
    """Bytes of the prompts that are text."""
    return sum(len(p.data) for p in request.prompts if not p.token_ids)


def block_tokens(view: TierView, chains: PromptChains, ratios: TokenRatios, model: str) -> float:
    """What one block of this request is worth: exact for token ids, learned for text."""
    if chains.token_ids:
        return view.block_bytes / _TOKEN_ID_BYTES
    return view.block_bytes / ratios.bytes_per_token(model, chains.family)


def match_views(
    index: PrefixIndex, views: Sequence[TierView], chains: PromptChains, ratios: TokenRatios, model: str
) -> dict[str, PrefixMatch]:
    """Producer name → how much of the request each endpoint holds in that view.

    A view never holds more of a prompt than its cap, since no more is recorded in it.
    """
    found: dict[int, list[list[list[tuple[int, int]]]]] = {
        block_bytes: [index.match(chain) for chain in of_size]
        for block_bytes, of_size in chains.by_block_bytes.items()
    }
    matches: dict[str, PrefixMatch] = {}
    for view in views:
        per_prompt = [by_view[view.index_view] for by_view in found[view.block_bytes]]
        total = sum(len(chain) for chain in chains.of(view))
        segments = _summed(per_prompt)
        matches[view.name] = PrefixMatch(segments, total, block_tokens(view, chains, ratios, model))
    return matches


def valued(
    matches: Mapping[str, PrefixMatch],
    views: Sequence[TierView],
    chains: PromptChains,
    ratios: TokenRatios,
    model: str,
) -> dict[str, PrefixMatch]:
    """`matches` with what their blocks are worth by what was learned since."""
    return {
        view.name: replace(matches[view.name], block_tokens=block_tokens(view, chains, ratios, model))
        for view in views
    }


def unhashed_bytes(view: TierView, chains: PromptChains) -> int:
    """Bytes of the prompts that no block of `view` stands for: their tails, and what is beyond its cap."""
    return chains.data_bytes - view.block_bytes * sum(len(chain) for chain in chains.of(view))


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


def chain_summary(chains: PromptChains, tokens_between: int, tokens_per_block: float) -> tuple[int, ...]:
    """Hashes of the first prompt's chain at each full `tokens_between` tokens, for the access log."""
    first = next((of_size[0] for of_size in chains.by_block_bytes.values() if of_size), ())
    step = max(1, round(tokens_between / tokens_per_block))
    return tuple(first[step - 1 :: step])
