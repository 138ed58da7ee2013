"""From a parsed request to the engine, and from its tokens to the bytes of the answer."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from epp.engine import EngineRequest, FinishReason, StepOutput, block_keys, chain_seed
from epp.simserver.answers import Answer, answer_to
from epp.simserver.errors import ApiError
from epp.simserver.metrics import SimMetrics
from epp.simserver.replies import DONE, ReplyHead, Usage
from epp.simserver.requests import Generation
from epp.simserver.runner import EngineRunner, Submission
from epp.simserver.settings import SimSettings
from epp.simserver.vocabulary import Vocabulary

__all__ = ["ActiveGeneration", "GenerationService"]


@dataclass(slots=True)
class _Choice:
    """One answer in the making: how much the engine has generated, and how much was sent."""

    answer: Answer
    generated: int = 0
    sent: int = 0
    finish_reason: FinishReason | None = None


@dataclass(slots=True)
class ActiveGeneration:
    """A request that the engine works on."""

    request: Generation
    head: ReplyHead
    submission: Submission
    choices: list[_Choice]
    usage: Usage
    open_choices: int = field(default=0)


class GenerationService:
    """Submits requests and renders what comes out of them."""

    def __init__(
        self, settings: SimSettings, vocabulary: Vocabulary, runner: EngineRunner, metrics: SimMetrics
    ) -> None:
        self._settings = settings
        self._vocabulary = vocabulary
        self._runner = runner
        self._metrics = metrics

    def start(self, request: Generation, base_id: str) -> ActiveGeneration:
        """Give the request to the engine."""
        reply_id = f"{'chatcmpl' if request.chat else 'cmpl'}-{base_id}"
        answers = [
            self._answer(request, ids, request.max_tokens[position], choice)
            for position, ids in enumerate(request.prompts)
            for choice in range(request.n)
        ]
        sequences = [
            self._sequence(request, f"{reply_id}-{index}", request.prompts[index // request.n], answer)
            for index, answer in enumerate(answers)
        ]
        submission = self._runner.submit(sequences)
        self._metrics.on_request(request.n, max(request.max_tokens))
        return ActiveGeneration(
            request=request,
            head=ReplyHead(request.chat, reply_id, int(time.time()), request.model),
            submission=submission,
            choices=[_Choice(answer) for answer in answers],
            usage=Usage(prompt_tokens=sum(map(len, request.prompts))),
            open_choices=len(answers),
        )

    def abort(self, active: ActiveGeneration) -> None:
        """Drop what is left of it; does nothing when it has ended."""
        self._runner.abort(active.submission)

    async def reply(self, active: ActiveGeneration) -> dict[str, object]:
        """The whole reply, when it is complete; raises ApiError when the engine fails."""
        while active.open_choices:
            await self._next(active)
        texts = [
            self._text(active, index, 0, choice.generated) for index, choice in enumerate(active.choices)
        ]
        reasons = [choice.finish_reason or FinishReason.LENGTH for choice in active.choices]
        return active.head.reply(texts, reasons, active.usage)

    async def stream(self, active: ActiveGeneration) -> AsyncIterator[bytes]:
        """The events of the reply as they come; an engine failure is an event, then the end."""
        try:
            async for chunk in self._chunks(active):
                yield chunk
        except ApiError as error:
            yield b"data: " + error.body + b"\n\n"
        yield DONE

    async def _chunks(self, active: ActiveGeneration) -> AsyncIterator[bytes]:
        request = active.request
        roles_sent = not request.chat
        while active.open_choices:
            index = await self._next(active)
            if not roles_sent:
                for position in range(len(active.choices)):
                    yield active.head.role_chunk(position)
                roles_sent = True
            choice = active.choices[index]
            due = choice.generated - choice.sent >= request.stream_interval
            if due or choice.sent == 0 or choice.finish_reason is not None:
                yield self._chunk(active, index)
        if request.include_usage:
            yield active.head.usage_chunk(active.usage)

    def _chunk(self, active: ActiveGeneration, index: int) -> bytes:
        choice = active.choices[index]
        text = self._text(active, index, choice.sent, choice.generated)
        choice.sent = choice.generated
        usage = None
        if active.request.continuous_usage:
            prompt = active.request.prompts[index // active.request.n]
            usage = Usage(len(prompt), choice.generated).counts()
        return active.head.text_chunk(
            index, text, choice.finish_reason, fingerprint=not active.request.include_usage, usage=usage
        )

    async def _next(self, active: ActiveGeneration) -> int:
        """Wait for tokens and book them; the index of the choice that got them."""
        received = await active.submission.events.get()
        if isinstance(received, ApiError):
            raise received
        index, output = received
        self._book(active, index, output)
        return index

    def _book(self, active: ActiveGeneration, index: int, output: StepOutput) -> None:
        choice = active.choices[index]
        choice.generated += output.new_tokens
        choice.finish_reason = output.finish_reason
        active.usage.completion_tokens += output.new_tokens
        if output.timeline is not None and self._settings.prompt_tokens_details:
            active.usage.note_hit(output.timeline, self._settings.block_size, chat=active.request.chat)
        if output.finish_reason is not None:
            active.open_choices -= 1

    def _text(self, active: ActiveGeneration, index: int, start: int, end: int) -> str:
        ids = active.choices[index].answer.token_ids[start:end]
        text = "".join(map(self._vocabulary.text_of, ids))
        if start == 0 and active.request.echo_texts:
            return active.request.echo_texts[index // active.request.n] + text
        return text

    def _answer(self, request: Generation, ids: list[int], max_tokens: int, choice: int) -> Answer:
        return answer_to(
            ids,
            self._vocabulary.words,
            seed=request.seed,
            choice=choice,
            max_tokens=max_tokens,
            natural_tokens=self._settings.answer_tokens,
            runs_to_limit=request.runs_to_limit,
        )

    def _sequence(
        self, request: Generation, sequence_id: str, prompt: list[int], answer: Answer
    ) -> EngineRequest:
        seed = chain_seed(request.adapter or "", request.salt)
        return EngineRequest(
            request_id=sequence_id,
            prompt_tokens=len(prompt),
            output_tokens=len(answer.token_ids),
            keys=block_keys([*prompt, *answer.token_ids], self._settings.block_size, seed),
            finish_reason=answer.finish_reason,
        )
