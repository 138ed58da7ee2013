"""From prompts to block hash chains, and from the index to matches."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from epp.director.tokens import TokenRatios
from epp.director.views import Tier, TierView
from epp.prefix import PrefixIndex, chain_seed, hash_chain
from epp.request.types import InferenceRequest, Prompt
from epp.scheduling.contracts import NO_MATCH, PrefixMatch

__all__ = [
    "BlockSize",
    "PromptChains",
    "ViewGroups",
    "block_sizes",
    "block_tokens",
    "chain_summary",
    "first_chain",
    "hash_prompts",
    "match_views",
    "view_groups",
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


class BlockSize(msgspec.Struct, frozen=True):
    """A block size in bytes and the largest cap of the views that use it, None for no cap.

    `beside`: only a shadow uses it.
    """

    block_bytes: int
    cap: int | None
    beside: bool


class ViewGroup(msgspec.Struct, frozen=True):
    """Views that cut the chains alike: one of them, and names and index views of all.

    `answers` is how often each holds the answer, too: once (GPU), or not at all.
    """

    view: TierView
    names: list[str]
    numbers: list[int]
    answers: list[int]


class ViewGroups(msgspec.Struct, frozen=True):
    """Views by how they cut the chains, and their names in their own order."""

    names: tuple[str, ...]
    groups: tuple[ViewGroup, ...]


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
        return self._cuts.get(view.cut) or self._new_cut(view)

    def _new_cut(self, view: TierView) -> Cut:
        cut = self._cuts[view.cut] = _cut(self.by_block_bytes[view.block_bytes], view.max_blocks)
        return cut

    def of(self, view: TierView) -> tuple[Chain, ...]:
        """The chains for `view`, cut at its cap."""
        return self.cut(view).chains


def _cut(chains: tuple[Chain, ...], cap: int | None) -> Cut:
    blocks = sum(map(len, chains))
    if cap is None or blocks <= cap:  # as most are: hashed no further than the largest cap
        return Cut(chains, blocks)
    chains = tuple([chain[:cap] for chain in chains])
    return Cut(chains, sum(map(len, chains)))


def block_sizes(views: Sequence[TierView], beside: Sequence[TierView] = ()) -> tuple[BlockSize, ...]:
    """What prompts are hashed in for `views`, and for those `beside` that have no say in the family."""
    caps: dict[int, int | None] = {}
    for view in (*views, *beside):
        known = caps.get(view.block_bytes, 0)
        caps[view.block_bytes] = (
            None if known is None or view.max_blocks is None else max(known, view.max_blocks)
        )
    own = {view.block_bytes for view in views}
    return tuple(BlockSize(size, cap, size not in own) for size, cap in caps.items())


def view_groups(views: Sequence[TierView]) -> ViewGroups:
    """`views` by how they cut the chains, for `match_views` and for claims."""
    groups: dict[tuple[int, int | None], ViewGroup] = {}
    for view in views:
        group = groups.setdefault(view.cut, ViewGroup(view, [], [], []))
        group.names.append(view.name)
        group.numbers.append(view.index_view)
        group.answers.append(int(view.tier is Tier.GPU))
    return ViewGroups(tuple(view.name for view in views), tuple(groups.values()))


def _seed(prompt: Prompt, base: str, adapter: str, salt: str) -> int:
    kind = "ids" if prompt.token_ids else "text"
    # Salts are the clients' and without number; names of models are few.
    return chain_seed(base, adapter, salt, kind) if salt else _unsalted_seed(base, adapter, kind)


@lru_cache(256)
def _unsalted_seed(base: str, adapter: str, kind: str) -> int:
    return chain_seed(base, adapter, "", kind)


def hash_prompts(
    request: InferenceRequest, base: str, adapter: str, sizes: Sequence[BlockSize]
) -> Generator[None, None, PromptChains]:
    """Hash the first 64 prompts once for each block size in use; yields about each MB.

    `base` is the identity of the base model (aliases share it), `adapter` the adapter's name.
    """
    by_block_bytes: dict[int, tuple[Chain, ...]] = {}
    family: int | None = None
    for size in sizes:
        chains, since_turn = [], 0
        for prompt in request.prompts[:_MAX_CHAINS]:
            seed = _seed(prompt, base, adapter, request.salt)
            chain = yield from hash_chain(prompt.data, seed, size.block_bytes, size.cap)
            chains.append(chain)
            if family is None and chain and not size.beside:
                family = chain[0]
            since_turn += len(chain) * size.block_bytes
            if since_turn > _TURN_BYTES:
                since_turn = 0
                yield
        by_block_bytes[size.block_bytes] = tuple(chains)
    data_bytes, token_ids = 0, False
    for prompt in request.prompts:
        data_bytes += len(prompt.data)
        token_ids = token_ids or prompt.token_ids
    return PromptChains(by_block_bytes, token_ids, family, data_bytes)


def prompt_tokens(chains: PromptChains, text_bytes: int, ratio: float) -> int:
    """Estimated length of all prompts, of which `text_bytes` are text of `ratio` bytes per token."""
    return (chains.data_bytes - text_bytes) // _TOKEN_ID_BYTES + int(text_bytes / ratio)


def text_bytes(request: InferenceRequest, chains: PromptChains) -> int:
    """Bytes of the prompts that are text."""
    if not chains.token_ids:
        return chains.data_bytes
    return sum([len(p.data) for p in request.prompts if not p.token_ids])


def block_tokens(chains: PromptChains, ratios: TokenRatios, model: str) -> dict[int, float]:
    """What one block of this request is worth, by block size: exact for token ids, learned for text."""
    ratio = _TOKEN_ID_BYTES if chains.token_ids else ratios.bytes_per_token(model, chains.family)
    return {block_bytes: block_bytes / ratio for block_bytes in chains.by_block_bytes}


def match_views(
    index: PrefixIndex, views: ViewGroups, chains: PromptChains, block_tokens: Mapping[int, float]
) -> dict[str, PrefixMatch]:
    """Producer name → how much of the request each endpoint holds in that view.

    A view never holds more of a prompt than its cap, since no more is recorded in it.
    """
    matches = dict.fromkeys(views.names, NO_MATCH)  # in their order
    for group in views.groups:
        cut, worth = chains.cut(group.view), block_tokens[group.view.block_bytes]
        per_prompt = [index.match(chain, group.numbers) for chain in cut.chains]
        # Segments of one prompt are what they are.
        of_views = per_prompt[0] if len(per_prompt) == 1 else map(_summed, zip(*per_prompt, strict=True))
        for name, segments in zip(group.names, of_views, strict=False):
            matches[name] = PrefixMatch(tuple(segments), cut.blocks, worth)
    return matches


def first_chain(chains: PromptChains | None, block_tokens: Mapping[int, float]) -> tuple[Chain, float]:
    """The first prompt's hashes as a cycle has them, in the finest blocks there are, and a block's worth."""
    if chains is None or not chains.by_block_bytes:
        return (), 0.0
    size = min(chains.by_block_bytes)
    of_prompts = chains.by_block_bytes[size]
    return of_prompts[0] if of_prompts else (), block_tokens[size]


def _summed(per_prompt: Iterable[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Segments of several prompts added up by endpoint."""
    by_slot: dict[int, int] = {}
    for segments in per_prompt:
        for mask, blocks in segments:
            for slot in _slots(mask):
                by_slot[slot] = by_slot.get(slot, 0) + blocks
    by_blocks: dict[int, int] = {}
    for slot, blocks in by_slot.items():
        by_blocks[blocks] = by_blocks.get(blocks, 0) | 1 << slot
    return [(by_blocks[blocks], blocks) for blocks in sorted(by_blocks, reverse=True)]


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
