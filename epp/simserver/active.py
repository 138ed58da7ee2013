"""A request that the engine works on, and what comes of it: bytes of an answer, or pieces of text."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from epp.engine import FinishReason, StepOutput
from epp.simserver.answers import Answer
from epp.simserver.errors import ApiError
from epp.simserver.replies import DONE, ReplyHead, Usage
from epp.simserver.requests import Generation
from epp.simserver.runner import Submission
from epp.simserver.vocabulary import Vocabulary

__all__ = ["ActiveGeneration"]


@dataclass(slots=True)
class _Choice:
    """One answer in the making: how much the engine has generated, and how much was sent."""

    answer: Answer
    generated: int = 0
    sent: int = 0
    finish_reason: FinishReason | None = None
    cached_tokens: int = 0


class ActiveGeneration:
    """Takes what the engine yields for one HTTP request; `reply`, `stream` or `pieces` is used, once.

    `base_id` is the id of the reply without its prefix; `block_tokens` is None when cached tokens are not to
    be told.
    """

    def __init__(
        self,
        request: Generation,
        base_id: str,
        head: ReplyHead,
        submission: Submission,
        answers: Sequence[Answer],
        vocabulary: Vocabulary,
        block_tokens: int | None,
    ) -> None:
        self.request = request
        self.base_id = base_id
        self.submission = submission
        self._head = head
        self._choices = [_Choice(answer) for answer in answers]
        self._vocabulary = vocabulary
        self._block_tokens = block_tokens
        self._open_choices = len(answers)

    async def reply(self) -> dict[str, Any]:
        """The whole reply, when it is complete; raises ApiError when the engine fails."""
        while self._open_choices:
            await self._next()
        texts = [self._text(index, 0) for index in range(len(self._choices))]
        reasons = [choice.answer.finish_reason for choice in self._choices]
        return self._head.reply(texts, reasons, self.usage)

    async def pieces(self) -> AsyncIterator[str]:
        """The text of the only choice as it comes; raises ApiError when the engine fails."""
        while self._open_choices:
            index = await self._next()
            choice = self._choices[index]
            if self._due(choice):
                text = self._text(index, choice.sent)
                choice.sent = choice.generated
                yield text

    async def text(self) -> str:
        """The same as a whole."""
        return "".join([piece async for piece in self.pieces()])

    @property
    def stopped_by_itself(self) -> bool:
        """The last choice did not run into its limit."""
        return self._choices[-1].answer.finish_reason is FinishReason.STOP

    @property
    def usage(self) -> Usage:
        """Token counts so far."""
        return self._usage(self._choices[-self.request.n].cached_tokens)

    async def stream(self) -> AsyncIterator[bytes]:
        """The events of the reply as they come; an engine failure is an event, then the end."""
        try:
            async for chunk in self._chunks():
                yield chunk
        except ApiError as error:
            yield b"data: " + error.body + b"\n\n"
        yield DONE

    async def _chunks(self) -> AsyncIterator[bytes]:
        index = await self._next()
        cached_tokens = self._choices[index].cached_tokens
        if self.request.chat:
            for position in range(len(self._choices)):
                yield self._head.role_chunk(position)
        yield self._chunk(index)
        while self._open_choices:
            index = await self._next()
            if self._due(self._choices[index]):
                yield self._chunk(index)
        if self.request.include_usage:
            yield self._head.usage_chunk(self._usage(cached_tokens))

    def _due(self, choice: _Choice) -> bool:
        """The first and the last token go at once, others when an interval is full."""
        full = choice.generated - choice.sent >= self.request.stream_interval
        return full or choice.sent == 0 or choice.finish_reason is not None

    def _chunk(self, index: int) -> bytes:
        choice = self._choices[index]
        text = self._text(index, choice.sent)
        choice.sent = choice.generated
        usage = None
        if self.request.continuous_usage:
            prompt_tokens = len(self.request.prompts[index // self.request.n])
            usage = Usage(prompt_tokens, choice.generated).counts()
        fingerprint = not self.request.include_usage
        return self._head.text_chunk(index, text, choice.finish_reason, fingerprint=fingerprint, usage=usage)

    async def _next(self) -> int:
        """Wait for tokens and book them; the index of the choice that got them."""
        received = await self.submission.events.get()
        if isinstance(received, ApiError):
            raise received
        index, output = received
        self._book(self._choices[index], output)
        return index

    def _book(self, choice: _Choice, output: StepOutput) -> None:
        choice.generated += output.new_tokens
        choice.finish_reason = output.finish_reason
        if output.timeline is not None:
            choice.cached_tokens = output.timeline.gpu_hit_tokens + output.timeline.cpu_hit_tokens
        if output.finish_reason is not None:
            self._open_choices -= 1

    def _text(self, index: int, start: int) -> str:
        choice = self._choices[index]
        ids = choice.answer.token_ids[start : choice.generated]
        text = "".join(map(self._vocabulary.text_of, ids))
        if start == 0 and self.request.echo_texts:
            return self.request.echo_texts[index // self.request.n] + text
        return text

    def _usage(self, cached_tokens: int) -> Usage:
        """Totals. With several prompts vLLM tells the cached tokens of only one of them."""
        prompt_tokens = sum(map(len, self.request.prompts))
        completion_tokens = sum(choice.generated for choice in self._choices)
        if self._block_tokens is None:
            return Usage(prompt_tokens, completion_tokens)
        created = None
        if self.request.chat:
            created = max(0, prompt_tokens // self._block_tokens * self._block_tokens - cached_tokens)
        return Usage(prompt_tokens, completion_tokens, cached_tokens, created)
