"""What a dispatched request holds at its endpoint, in the ledger and in the prefix index.

A claim is taken in the same step as the pick, so that a burst sees itself. It is confirmed by a 2xx head and
taken back by a failure before it. Tiers differ: the GPU tier also holds the answer (of the expected, later
the real length) and ranks the prompt's blocks when the request ends; the CPU tier is written through when the
prompt is computed and holds prompts only.

Both also hold full engine blocks that no hash block stands for: the prompt's tail, with the answer. They are
anonymous runs; without them the tiers would look larger than they are.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from epp.director.chains import PromptChains, ViewGroup, view_groups
from epp.director.hold import Hold
from epp.director.recent import RecentNumbers
from epp.director.views import Tier, TierView, engine_block_tokens
from epp.endpoints.ledger import Ledger
from epp.endpoints.types import Endpoint
from epp.prefix import PrefixIndex, Touch

__all__ = ["Claims", "OutputLengths"]

_FIRST_GUESS_TOKENS: Final = 128.0
_WEIGHT: Final = 0.1

# A block's weight is corrected when it turns out to be wrong by more; ratios of one prompt family vary less.
_TOLERANCE: Final = 1 / 16


class OutputLengths:
    """Expected length of an answer in tokens: a moving average by model, below the request's own limit."""

    def __init__(self) -> None:
        self._means: RecentNumbers[str] = RecentNumbers()

    def expected(self, model: str, limit: int | None) -> int:
        """Tokens to reserve for an answer of `model`."""
        known = self._means.get(model)
        mean = int(_FIRST_GUESS_TOKENS if known is None else known)
        return mean if limit is None else min(mean, limit)

    def learn(self, model: str, tokens: int) -> None:
        """An answer ended with `tokens`."""
        self._means.blend(model, tokens, _WEIGHT)


class Claims:
    """Takes and releases holds; the only writer of ledger and index for requests.

    Prompts come as chains, with what one of their blocks is worth in tokens, by its size in bytes.
    """

    def __init__(self, index: PrefixIndex, views: Sequence[TierView], ledger: Ledger) -> None:
        self._index = index
        self._groups = view_groups(views).groups
        self._gpu_groups = view_groups([v for v in views if v.tier is Tier.GPU]).groups
        self._occupied = tuple(number for group in self._groups for number in group.numbers)
        self._answers = tuple(answer for group in self._groups for answer in group.answers)
        self._ledger = ledger

    def take(
        self,
        endpoint: Endpoint,
        chains: PromptChains | None,
        block_tokens: Mapping[int, float],
        *,
        uncached_tokens: int,
        output_tokens: int,
    ) -> Hold:
        """Raise the ledger and claim the prefix for `endpoint`."""
        epoch = self._ledger.take(endpoint.slot, uncached_tokens)
        hold = Hold(endpoint, epoch, uncached_tokens, [], [])
        if chains is not None:
            hold.touches = self.record(endpoint, chains, block_tokens)
            occupy, slot = self._index.occupy, endpoint.slot
            sizes = self._anonymous_tokens(endpoint, chains, block_tokens, output_tokens)
            hold.occupancies = [
                occupy(view, slot, tokens) for view, tokens in zip(self._occupied, sizes, strict=True)
            ]
        return hold

    def record(
        self, endpoint: Endpoint, chains: PromptChains, block_tokens: Mapping[int, float]
    ) -> list[Touch]:
        """Note in the index, and only there, that `endpoint` gets these prompts."""
        return self._touch(self._groups, endpoint, chains, block_tokens)

    def _touch(
        self,
        groups: tuple[ViewGroup, ...],
        endpoint: Endpoint,
        chains: PromptChains,
        block_tokens: Mapping[int, float],
    ) -> list[Touch]:
        touches: list[Touch] = []
        touch_all, slot = self._index.touch_all, endpoint.slot
        for group in groups:
            weight = round(block_tokens[group.view.block_bytes]) or 1
            for chain in chains.cut(group.view).chains:
                touches += touch_all(group.numbers, slot, chain, weight)
        return touches

    def prefill_done(self, hold: Hold) -> None:
        """The first byte came: the endpoint has no uncached tokens of this request left to compute."""
        if hold.tokens_held:
            hold.tokens_held = False
            self._ledger.release_tokens(hold.endpoint.slot, hold.uncached_tokens, hold.epoch)

    def take_back(self, hold: Hold) -> None:
        """The execution failed: as if it had not been."""
        self._release_counts(hold)
        self.forget(hold)

    def forget(self, hold: Hold) -> None:
        """Remove from the index what this hold added and nobody touched since."""
        for touch in hold.touches:
            self._index.undo(touch)
        for occupancy in hold.occupancies:
            self._index.release(occupancy)
        hold.touches, hold.occupancies = [], []

    def finish(
        self,
        hold: Hold,
        chains: PromptChains | None,
        claimed: Mapping[int, float],
        learned: Mapping[int, float],
        output_tokens: int | None,
        *,
        same_incarnation: bool,
    ) -> None:
        """The request ended.

        `claimed` is what blocks were worth when the claim was made, `learned` what the answer taught of it;
        `same_incarnation`: the endpoint still has what it computed for the request.
        """
        self._release_counts(hold)
        if chains is None or not hold.confirmed:
            self.forget(hold)
            return
        if same_incarnation and not _alike(claimed, learned):
            self._weigh_again(hold, chains, learned)
        if output_tokens is not None:
            self._resize(hold, chains, learned, output_tokens)
        if same_incarnation:
            self._touch(self._gpu_groups, hold.endpoint, chains, learned)

    def _weigh_again(self, hold: Hold, chains: PromptChains, learned: Mapping[int, float]) -> None:
        """Put what the claim added into the index anew, since its blocks got a wrong weight.

        A block keeps its weight while anybody holds it, so those that others use since stay as they are.
        """
        for touch in hold.touches:
            self._index.undo(touch)
        hold.touches = self.record(hold.endpoint, chains, learned)

    def _resize(
        self, hold: Hold, chains: PromptChains, learned: Mapping[int, float], output_tokens: int
    ) -> None:
        sizes = self._anonymous_tokens(hold.endpoint, chains, learned, output_tokens)
        for answer, occupancy, tokens in zip(self._answers, hold.occupancies, sizes, strict=True):
            # What the CPU tier holds it got when the prompt was computed; only the GPU tier used it since.
            if answer or tokens != occupancy.tokens:
                self._index.resize(occupancy, tokens)

    def _anonymous_tokens(
        self,
        endpoint: Endpoint,
        chains: PromptChains,
        block_tokens: Mapping[int, float],
        output_tokens: int,
    ) -> list[int]:
        """What a request takes of each tier beyond its hashed blocks, as far as it fills engine blocks.

        An engine block that is not full is given back when the request ends, and is the first to be used
        again.
        """
        engine_block = engine_block_tokens(endpoint)
        sizes: list[int] = []
        for group in self._groups:
            view = group.view
            worth = block_tokens[view.block_bytes]
            hashed_tokens = round(chains.cut(view).blocks * worth)
            prompt_tokens = chains.data_bytes * worth / view.block_bytes
            for answer in group.answers:
                tokens = int(prompt_tokens + answer * output_tokens)
                beyond = tokens // engine_block * engine_block - hashed_tokens
                sizes.append(max(0, beyond))
        return sizes

    def _release_counts(self, hold: Hold) -> None:
        self.prefill_done(hold)
        self._ledger.release_request(hold.endpoint.slot, hold.epoch)


def _alike(claimed: Mapping[int, float], learned: Mapping[int, float]) -> bool:
    return all(abs(worth - learned[size]) <= _TOLERANCE * worth for size, worth in claimed.items())
