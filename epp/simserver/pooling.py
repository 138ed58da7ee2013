"""The routes whose answer is numbers: embeddings, pooling, classes, scores, ranks.

Every prompt goes through the engine with its prefix cache, as a generation of one token that nobody sees. The
numbers depend on the prompt alone.
"""

import base64
import hashlib
import random
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from epp.simserver.active import ActiveGeneration
from epp.simserver.errors import validation_error
from epp.simserver.exchange import Exchange
from epp.simserver.fields import optional, positive_int
from epp.simserver.inference import InferenceService
from epp.simserver.requests import Generation, generation_of, prompt_forms
from epp.simserver.settings import SimSettings
from epp.simserver.template import render_chat
from epp.simserver.vocabulary import Vocabulary

__all__ = ["PoolingRoutes"]

DIMENSIONS = 64
_LABELS = ("LABEL_0", "LABEL_1")

Pair = tuple[str, str]
Shape = Callable[[dict[str, Any], Sequence[Sequence[int]]], dict[str, Any]]


class PoolingRoutes:
    """`/v1/embeddings`, `/pooling`, `/classify`, `/score` and `/rerank` under all their names."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service

    async def embeddings(self, exchange: Exchange) -> None:
        """POST /v1/embeddings."""
        await self._serve(exchange, "embd", _input_prompts, _embeddings)

    async def pooling(self, exchange: Exchange) -> None:
        """POST /pooling."""
        await self._serve(exchange, "pooling", _input_prompts, _pooled)

    async def classify(self, exchange: Exchange) -> None:
        """POST /classify."""
        await self._serve(exchange, "classify", _input_prompts, _classes)

    async def score(self, exchange: Exchange) -> None:
        """POST /score: a number for each pair."""
        await self._serve(exchange, "score", _pair_prompts, _scores)

    async def rerank(self, exchange: Exchange) -> None:
        """POST /rerank: the documents, best first."""
        await self._serve(exchange, "score", _pair_prompts, _ranks)

    async def _serve(
        self,
        exchange: Exchange,
        prefix: str,
        prompts_of: Callable[[dict[str, Any], Vocabulary], tuple[list[int], ...]],
        shape: Shape,
    ) -> None:
        data: dict[str, Any] = {}

        def parser(body: dict[str, Any], settings: SimSettings, vocabulary: Vocabulary) -> Generation:
            data.update(body)
            unstreamed = {name: value for name, value in body.items() if name != "stream"}
            prompts = prompts_of(body, vocabulary)
            return generation_of(unstreamed, settings, prompts, chat=False, limit=1, counted_exactly=True)

        async def answer(exchange: Exchange, active: ActiveGeneration) -> None:
            await active.reply()
            request = active.request
            tokens = active.usage.prompt_tokens
            usage: dict[str, Any] = {"prompt_tokens": tokens, "total_tokens": tokens}
            head: dict[str, Any] = {"id": f"{prefix}-{active.base_id}"}
            if shape is not _ranks:
                usage |= {"completion_tokens": 0, "prompt_tokens_details": None}
                head |= {"object": "list", "created": int(time.time())}
            shown = head | {"model": request.model} | shape(data, request.prompts) | {"usage": usage}
            await exchange.answer_json(200, shown)

        await self._service.serve_json(exchange, parser, answer)


def _input_prompts(data: dict[str, Any], vocabulary: Vocabulary) -> tuple[list[int], ...]:
    """`input` in every form of a completion's prompt, or parts, or else messages."""
    messages = optional(data, "messages", list)
    given = data.get("input")
    if messages is None and isinstance(given, list) and given and isinstance(given[0], dict):
        messages = [{"role": "user", "content": given}]
    if messages is not None:
        return (vocabulary.encode(render_chat(messages, generation_prompt=False)),)
    return tuple(vocabulary.encode(form) if isinstance(form, str) else form for form in prompt_forms(given))


def _pair_prompts(data: dict[str, Any], vocabulary: Vocabulary) -> tuple[list[int], ...]:
    return tuple(vocabulary.encode(f"{one}\n{other}") for one, other in _pairs(data))


def _pairs(data: dict[str, Any]) -> list[Pair]:
    """One text with each of the others, or two lists of one length side by side."""
    left = _texts(data, "query", "queries", "text_1", "data_1")
    right = _texts(data, "documents", "text_2", "data_2")
    if len(left) == 1:
        left = left * len(right)
    if len(left) != len(right):
        raise validation_error(
            "value_error", "body", "Value error, Input lengths must be either 1:1, 1:N or N:N"
        )
    return list(zip(left, right, strict=True))


def _texts(data: dict[str, Any], *names: str) -> list[str]:
    found = next((data[name] for name in names if data.get(name)), None)
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise validation_error("missing", f"body.{names[0]}", "Field required")
    return texts


def _numbers(prompt: Sequence[int], count: int) -> list[float]:
    """Numbers between -1 and 1 that are the prompt's own."""
    digest = hashlib.blake2b(array("q", prompt).tobytes(), digest_size=8).digest()
    generator = random.Random(digest)
    return [generator.uniform(-1.0, 1.0) for _ in range(count)]


def _embeddings(data: dict[str, Any], prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    count = positive_int(data, "dimensions") or DIMENSIONS
    as_text = data.get("encoding_format") == "base64"
    found = [_numbers(prompt, count) for prompt in prompts]
    shown = [base64.b64encode(array("f", v).tobytes()).decode() if as_text else v for v in found]
    return {"data": [{"index": n, "object": "embedding", "embedding": v} for n, v in enumerate(shown)]}


def _pooled(_data: dict[str, Any], prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    found = [_numbers(prompt, DIMENSIONS) for prompt in prompts]
    return {"data": [{"index": n, "object": "pooling", "data": v} for n, v in enumerate(found)]}


def _classes(_data: dict[str, Any], prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    rows = []
    for index, prompt in enumerate(prompts):
        share = _share(prompt)
        probs = [share, 1.0 - share]
        label = _LABELS[probs.index(max(probs))]
        rows.append({"index": index, "label": label, "probs": probs, "num_classes": len(probs)})
    return {"data": rows}


def _scores(_data: dict[str, Any], prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    return {"data": [{"index": n, "object": "score", "score": _share(p)} for n, p in enumerate(prompts)]}


def _ranks(data: dict[str, Any], prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    documents = [document for _, document in _pairs(data)]
    rows = [
        {
            "index": n,
            "document": {"text": documents[n], "multi_modal": None},
            "relevance_score": _share(prompt),
        }
        for n, prompt in enumerate(prompts)
    ]
    rows.sort(key=lambda row: (-row["relevance_score"], row["index"]))  # type: ignore[operator]
    return {"results": rows[: positive_int(data, "top_n") or len(rows)]}


def _share(prompt: Sequence[int]) -> float:
    return (_numbers(prompt, 1)[0] + 1.0) / 2.0
