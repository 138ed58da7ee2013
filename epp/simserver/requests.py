"""Bodies of inference requests, read and refused as vLLM does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epp.simserver.errors import bad_request, model_not_found, validation_error
from epp.simserver.fields import optional, positive_int, wrong_type
from epp.simserver.settings import SimSettings
from epp.simserver.template import render_chat
from epp.simserver.vocabulary import Vocabulary

__all__ = [
    "Generation",
    "generation_of",
    "parse_chat",
    "parse_completion",
    "parse_conversation",
    "parse_tokenize",
    "prompt_forms",
]

COMPLETION_MAX_TOKENS = 16
"""vLLM's default for /v1/completions."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What one HTTP request asks the engine for: `n` answers to each prompt.

    Attributes:
        model: name to tell in the answer.
        adapter: None for the base model.
        prompts: token ids of each prompt.
        prompt_texts: their texts, where `echo` needs them.
        max_tokens: limit for each prompt.
        salt: `cache_salt`, "" when absent.
    """

    chat: bool
    model: str
    adapter: str | None
    prompts: tuple[list[int], ...]
    max_tokens: tuple[int, ...]
    n: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    runs_to_limit: bool
    seed: int
    salt: str
    request_id: str | None
    stream_interval: int
    echo_texts: tuple[str, ...] = ()


def parse_chat(data: dict[str, Any], settings: SimSettings, vocabulary: Vocabulary) -> Generation:
    """A body of /v1/chat/completions; raises ApiError."""
    ids = vocabulary.encode(_rendered_chat(data))
    limit = positive_int(data, "max_completion_tokens") or positive_int(data, "max_tokens")
    return generation_of(data, settings, (ids,), chat=True, limit=limit, counted_exactly=False)


def parse_completion(data: dict[str, Any], settings: SimSettings, vocabulary: Vocabulary) -> Generation:
    """A body of /v1/completions; raises ApiError."""
    prompts = prompt_forms(data.get("prompt"))
    limit = positive_int(data, "max_tokens") or COMPLETION_MAX_TOKENS
    ids = tuple(vocabulary.encode(prompt) if isinstance(prompt, str) else prompt for prompt in prompts)
    exact = not any(isinstance(prompt, str) for prompt in prompts)
    echo: tuple[str, ...] = ()
    if optional(data, "echo", bool):
        echo = tuple(p if isinstance(p, str) else vocabulary.decode(p) for p in prompts)
    return generation_of(data, settings, ids, chat=False, limit=limit, counted_exactly=exact, echo=echo)


def parse_conversation(
    data: dict[str, Any],
    messages: Sequence[Mapping[str, Any]],
    limit: int | None,
    settings: SimSettings,
    vocabulary: Vocabulary,
) -> Generation:
    """A body of another chat API, whose messages and limit of tokens were found; raises ApiError."""
    ids = vocabulary.encode(render_chat(messages, optional(data, "tools", list) or ()))
    return generation_of(data, settings, (ids,), chat=True, limit=limit, counted_exactly=False)


def parse_tokenize(data: dict[str, Any], vocabulary: Vocabulary) -> list[int]:
    """A body of /tokenize: a prompt, or messages with the template applied; raises ApiError."""
    prompt = optional(data, "prompt", str)
    return vocabulary.encode(_rendered_chat(data) if prompt is None else prompt)


def _rendered_chat(data: dict[str, Any]) -> str:
    if "messages" not in data:
        size = f"<dict of {len(data)} items>"
        raise validation_error("missing", "body.messages", "Field required", input=size)
    messages = optional(data, "messages", list) or []
    if not all(isinstance(message, dict) for message in messages):
        raise wrong_type("messages", dict)
    return render_chat(
        messages,
        optional(data, "tools", list) or (),
        optional(data, "documents", list) or (),
        generation_prompt=optional(data, "add_generation_prompt", bool) is not False,
    )


def prompt_forms(prompt: object) -> list[str | list[int]]:
    """Every form of `prompt`: a string, a list of strings, token ids, a list of token ids."""
    if isinstance(prompt, str) and prompt:
        return [prompt]
    if isinstance(prompt, list) and prompt:
        if all(map(_is_token_id, prompt)):
            return [prompt]
        if all(isinstance(item, str) and item for item in prompt):
            return prompt
        if all(isinstance(item, list) and item and all(map(_is_token_id, item)) for item in prompt):
            return prompt
    message = "Value error, Either prompt or prompt_embeds must be provided and non-empty."
    raise validation_error("value_error", "body.prompt", message)


def _is_token_id(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**31


def generation_of(
    data: dict[str, Any],
    settings: SimSettings,
    prompts: tuple[list[int], ...],
    *,
    chat: bool,
    limit: int | None,
    counted_exactly: bool,
    echo: tuple[str, ...] = (),
) -> Generation:
    """What a body asks the engine for, its prompts being known; raises ApiError."""
    model = _model(data, settings)
    _check_temperature(data)
    stream = bool(optional(data, "stream", bool))
    options = optional(data, "stream_options", dict) or {}
    if options and not stream:
        message = "Value error, Stream options can only be defined when `stream=True`."
        raise validation_error("value_error", "body.stream_options", message)
    include_usage = bool(optional(options, "include_usage", bool))
    return Generation(
        chat=chat,
        model=model,
        adapter=model if model in settings.lora else None,
        prompts=prompts,
        max_tokens=tuple(_max_tokens(len(ids), limit, settings, exact=counted_exactly) for ids in prompts),
        n=positive_int(data, "n") or 1,
        stream=stream,
        include_usage=include_usage,
        continuous_usage=include_usage and bool(optional(options, "continuous_usage_stats", bool)),
        runs_to_limit=bool(optional(data, "ignore_eos", bool)),
        seed=(optional(data, "seed", int) or 0) % 2**32,
        salt=optional(data, "cache_salt", str) or "",
        request_id=optional(data, "request_id", str),
        stream_interval=max(settings.stream_interval, positive_int(data, "stream_interval") or 1),
        echo_texts=echo,
    )


def _model(data: dict[str, Any], settings: SimSettings) -> str:
    model = optional(data, "model", str) or settings.model
    if model != settings.model and model not in settings.lora:
        raise model_not_found(model, settings.model)
    return model


def _check_temperature(data: dict[str, Any]) -> None:
    temperature = data.get("temperature")
    if temperature is None:
        return
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        raise wrong_type("temperature", float)
    if temperature < 0:
        value = float(temperature)
        raise bad_request(f"temperature must be non-negative, got {value}.", "temperature", value)


def _max_tokens(prompt_tokens: int, limit: int | None, settings: SimSettings, *, exact: bool) -> int:
    """How many tokens the answer may have; raises ApiError when there is no room."""
    context = settings.context_tokens
    if limit is not None and limit > context:
        message = (
            f"max_tokens={limit} cannot be greater than max_model_len={context}. "
            "Please request fewer output tokens."
        )
        raise bad_request(message, "max_tokens", limit)
    head = f"This model's maximum context length is {context} tokens. However, "
    if prompt_tokens >= context:
        count = str(prompt_tokens) if exact else f"at least {context + 1}"
        message = (
            f"{head}your prompt contains {count} input tokens, which exceeds this limit even without any "
            "output tokens. Please reduce the length of the input prompt."
        )
        raise bad_request(message, "input_tokens", prompt_tokens if exact else context + 1)
    if limit is not None and prompt_tokens + limit > context:
        message = (
            f"{head}you requested {limit} output tokens and your prompt contains {prompt_tokens} input "
            f"tokens, for a total of {prompt_tokens + limit} tokens. Please reduce the length of the input "
            "prompt or the number of requested output tokens."
        )
        raise bad_request(message, "input_tokens", prompt_tokens)
    return context - prompt_tokens if limit is None else limit
