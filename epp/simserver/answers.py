"""What the simulated model says: words that depend on the prompt and the seed alone."""

import hashlib
import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from epp.engine import FinishReason

__all__ = ["Answer", "answer_to"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The tokens of one answer and how it ends."""

    token_ids: tuple[int, ...]
    finish_reason: FinishReason


def answer_to(
    prompt_ids: Sequence[int],
    words: Sequence[int],
    *,
    seed: int,
    choice: int,
    max_tokens: int,
    natural_tokens: tuple[int, int],
    runs_to_limit: bool,
) -> Answer:
    """The answer to a prompt: `words` drawn by a generator seeded with prompt, seed and choice.

    It ends by itself after a length drawn from `natural_tokens`, or at `max_tokens` if that comes first or if
    `runs_to_limit` (`ignore_eos`).
    """
    digest = hashlib.blake2b(array("q", [seed, choice, *prompt_ids]).tobytes(), digest_size=8).digest()
    generator = random.Random(digest)
    natural = generator.randint(*natural_tokens)
    stops = natural < max_tokens and not runs_to_limit
    token_ids = tuple(generator.choices(words, k=natural if stops else max_tokens))
    return Answer(token_ids, FinishReason.STOP if stops else FinishReason.LENGTH)
