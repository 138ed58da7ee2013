"""From a parsed request to the engine."""

import itertools
import time
from collections import Counter

from epp.engine import EngineRequest, block_keys, chain_seed
from epp.simserver.active import ActiveGeneration
from epp.simserver.answers import Answer, answer_to
from epp.simserver.metrics import SimMetrics
from epp.simserver.replies import ReplyHead
from epp.simserver.requests import Generation
from epp.simserver.runner import EngineRunner
from epp.simserver.settings import SimSettings
from epp.simserver.vocabulary import Vocabulary

__all__ = ["GenerationService"]


class GenerationService:
    """Gives requests to the engine and takes them back."""

    def __init__(
        self, settings: SimSettings, vocabulary: Vocabulary, runner: EngineRunner, metrics: SimMetrics
    ) -> None:
        self._settings = settings
        self._vocabulary = vocabulary
        self._runner = runner
        self._metrics = metrics
        self._serial = itertools.count()
        self._adapters: Counter[str] = Counter()

    def start(self, request: Generation, base_id: str) -> ActiveGeneration:
        """Give the request to the engine; `end` must follow."""
        reply_id = f"{'chatcmpl' if request.chat else 'cmpl'}-{base_id}"
        answers = [
            self._answer(request, position, choice)
            for position in range(len(request.prompts))
            for choice in range(request.n)
        ]
        sequences = [
            self._sequence(request, f"{reply_id}-{next(self._serial)}", position // request.n, answer)
            for position, answer in enumerate(answers)
        ]
        submission = self._runner.submit(sequences)
        self._metrics.on_request(request.n, max(request.max_tokens))
        self._count_adapter(request, 1)
        return ActiveGeneration(
            request,
            base_id,
            ReplyHead(request.chat, reply_id, int(time.time()), request.model),
            submission,
            answers,
            self._vocabulary,
            self._settings.block_size if self._settings.prompt_tokens_details else None,
        )

    def end(self, active: ActiveGeneration) -> None:
        """The HTTP request is over: drop what is left of it."""
        self._runner.abort(active.submission)
        self._count_adapter(active.request, -1)

    def _count_adapter(self, request: Generation, change: int) -> None:
        if request.adapter is not None:
            self._adapters[request.adapter] += change
            self._metrics.set_adapters(+self._adapters)

    def _answer(self, request: Generation, prompt: int, choice: int) -> Answer:
        return answer_to(
            request.prompts[prompt],
            self._vocabulary.words,
            seed=request.seed,
            choice=choice,
            max_tokens=request.max_tokens[prompt],
            natural_tokens=self._settings.answer_tokens,
            runs_to_limit=request.runs_to_limit,
        )

    def _sequence(self, request: Generation, sequence_id: str, prompt: int, answer: Answer) -> EngineRequest:
        prompt_ids = request.prompts[prompt]
        seed = chain_seed(request.adapter or "", request.salt)
        return EngineRequest(
            request_id=sequence_id,
            prompt_tokens=len(prompt_ids),
            output_tokens=len(answer.token_ids),
            keys=block_keys([*prompt_ids, *answer.token_ids], self._settings.block_size, seed),
            finish_reason=answer.finish_reason,
        )
