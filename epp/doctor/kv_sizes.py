"""How many bytes of KV cache a token takes, for well-known models, and how many blocks fit into a budget.

Source: bytes a token = 2 · layers · KV heads · head size · bytes of an element (keys and values), and for
DeepSeek's latent attention layers · (rank + rotary part) · bytes of an element; the figures are those of the
models' configurations. They are of the whole model, over all tensor-parallel ranks.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["GIB", "KvSize", "blocks_in", "kv_size"]

GIB: Final = 1 << 30
_PAGE_BYTES: Final = 4096  # vLLM rounds a block of the CPU tier up to a page

# Elements of keys and values together, a token.
_ELEMENTS: Final[Mapping[str, int]] = {
    "Llama-3.2-1B": 2 * 16 * 8 * 64,
    "Qwen2.5-7B": 2 * 28 * 4 * 128,
    "Qwen3-30B-A3B": 2 * 48 * 4 * 128,
    "Qwen3-0.6B": 2 * 28 * 8 * 128,
    "Llama-3.2-3B": 2 * 28 * 8 * 128,
    "Llama-3.1-8B": 2 * 32 * 8 * 128,
    "Mistral-7B": 2 * 32 * 8 * 128,
    "Mixtral-8x7B": 2 * 32 * 8 * 128,
    "Qwen3-4B": 2 * 36 * 8 * 128,
    "Qwen3-8B": 2 * 36 * 8 * 128,
    "Qwen3-14B": 2 * 40 * 8 * 128,
    "Mistral-Small-24B": 2 * 40 * 8 * 128,
    "Qwen3-235B-A22B": 2 * 94 * 4 * 128,
    "Qwen3-Coder-480B": 2 * 62 * 8 * 128,
    "Qwen3-32B": 2 * 64 * 8 * 128,
    "Qwen2.5-32B": 2 * 64 * 8 * 128,
    "Llama-3.1-70B": 2 * 80 * 8 * 128,
    "Llama-3.3-70B": 2 * 80 * 8 * 128,
    "Qwen2.5-72B": 2 * 80 * 8 * 128,
    "Llama-3.1-405B": 2 * 126 * 8 * 128,
    "DeepSeek-V3": 61 * 576,
}
_TEXTS: Final = tuple(
    (re.compile(rf"(?<![a-z0-9]){re.escape(name.lower())}(?![a-z0-9])"), name) for name in _ELEMENTS
)


@dataclass(frozen=True, slots=True)
class KvSize:
    """What a token of a model takes in the KV cache."""

    model: str
    bytes_per_token: int

    def block_bytes(self, block_tokens: int) -> int:
        """One block of `block_tokens`."""
        return self.bytes_per_token * block_tokens


def kv_size(names: Iterable[str], cache_dtype: str) -> KvSize | None:
    """The size for the first of `names` (served names, paths) that holds the name of a known model.

    `cache_dtype` is vLLM's `--kv-cache-dtype`: one byte an element for the fp8 kinds, else two.
    """
    element_bytes = 1 if cache_dtype.startswith("fp8") else 2
    for text in names:
        for pattern, model in _TEXTS:
            if pattern.search(text.lower()):
                return KvSize(model, _ELEMENTS[model] * element_bytes)
    return None


def blocks_in(budget_bytes: float, size: KvSize, block_tokens: int) -> int:
    """Blocks of the native CPU tier in a budget: each is rounded up to whole pages."""
    block_bytes = -(-size.block_bytes(block_tokens) // _PAGE_BYTES) * _PAGE_BYTES
    return int(budget_bytes // block_bytes)
