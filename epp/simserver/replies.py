"""Answers and chunks in the shape of vLLM 0.32, key by key in its order."""

from dataclasses import dataclass
from typing import Any

from epp.engine import FinishReason
from epp.simserver.compact import compact_json

__all__ = ["DONE", "FINGERPRINT", "ReplyHead", "Usage", "event", "named_event"]

FINGERPRINT = "vllm-0.32.0-44d33b17"
DONE = b"data: [DONE]\n\n"


def event(data: object) -> bytes:
    """One server-sent event."""
    return b"data: %s\n\n" % compact_json(data)


def named_event(name: str, data: object) -> bytes:
    """One server-sent event with a name."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), compact_json(data))


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one HTTP request. Cached tokens are None where the server does not tell them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    created_cache_tokens: int | None = None

    def in_reply(self) -> dict[str, Any]:
        """`usage` of a reply that is not streamed."""
        details = None
        if self.cached_tokens is not None:
            details = {
                "cached_tokens": self.cached_tokens,
                "created_cache_tokens": self.created_cache_tokens,
                "multimodal_tokens": None,
            }
        return {**self.counts(), "prompt_tokens_details": details, "completion_tokens_details": None}

    def in_stream(self) -> dict[str, Any]:
        """`usage` of the last chunk of a stream: what is None is left out."""
        usage: dict[str, Any] = self.counts()
        if self.cached_tokens is not None:
            details = {"cached_tokens": self.cached_tokens}
            if self.created_cache_tokens is not None:
                details["created_cache_tokens"] = self.created_cache_tokens
            usage["prompt_tokens_details"] = details
        return usage

    def counts(self) -> dict[str, Any]:
        """The three counts."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
        }


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """What every chunk and reply of one request begins with, and how they are built."""

    chat: bool
    reply_id: str
    created: int
    model: str

    def role_chunk(self, index: int) -> bytes:
        """The first chunk of a chat choice."""
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        return event({**self._chunk(choice), "prompt_token_ids": None, "prompt_text": None})

    def text_chunk(
        self,
        index: int,
        text: str,
        finish_reason: FinishReason | None,
        *,
        fingerprint: bool,
        usage: dict[str, Any] | None = None,
    ) -> bytes:
        """A chunk with text; `fingerprint` on the last one when no usage chunk follows."""
        choice = self._chat_choice(index, text, finish_reason) if self.chat else None
        chunk = self._chunk(choice or self._completion_choice(index, text, finish_reason))
        if usage is not None:
            chunk["usage"] = usage
        if fingerprint and finish_reason is not None:
            chunk["system_fingerprint"] = FINGERPRINT
        return event(chunk)

    def usage_chunk(self, usage: Usage) -> bytes:
        """The chunk with usage and no choices."""
        return event({**self._chunk(None), "usage": usage.in_stream(), "system_fingerprint": FINGERPRINT})

    def reply(self, texts: list[str], reasons: list[FinishReason], usage: Usage) -> dict[str, Any]:
        """The reply that is not streamed."""
        build = self._chat_reply_choice if self.chat else self._completion_reply_choice
        choices = [build(index, text, reasons[index]) for index, text in enumerate(texts)]
        reply: dict[str, Any] = {
            "id": self.reply_id,
            "object": "chat.completion" if self.chat else "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": usage.in_reply(),
        }
        if self.chat:
            reply |= {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None}
        return reply | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}

    def _chunk(self, choice: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "id": self.reply_id,
            "object": "chat.completion.chunk" if self.chat else "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [] if choice is None else [choice],
        }

    @staticmethod
    def _chat_choice(index: int, text: str, finish_reason: FinishReason | None) -> dict[str, Any]:
        choice: dict[str, Any] = {
            "index": index,
            "delta": {"content": text},
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        if finish_reason is not None:
            choice["stop_reason"] = None
        return choice | {"token_ids": None}

    @staticmethod
    def _completion_choice(index: int, text: str, finish_reason: FinishReason | None) -> dict[str, Any]:
        return {
            "index": index,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
            "stop_reason": None,
            "prompt_token_ids": None,
            "token_ids": None,
        }

    @staticmethod
    def _chat_reply_choice(index: int, text: str, finish_reason: FinishReason) -> dict[str, Any]:
        message = {
            "role": "assistant",
            "content": text,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        }
        return {
            "index": index,
            "message": message,
            "logprobs": None,
            "finish_reason": finish_reason,
            "stop_reason": None,
            "token_ids": None,
            "routed_experts": None,
        }

    @staticmethod
    def _completion_reply_choice(index: int, text: str, finish_reason: FinishReason) -> dict[str, Any]:
        return {
            "index": index,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
            "stop_reason": None,
            "token_ids": None,
            "prompt_logprobs": None,
            "prompt_token_ids": None,
            "routed_experts": None,
        }
