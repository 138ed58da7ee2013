"""Bodies of inference requests, read and refused as vLLM does."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epp.simserver.errors import bad_request, model_not_found, validation_error
from epp.simserver.settings import SimSettings
from epp.simserver.template import render_chat
from epp.simserver.vocabulary import Vocabulary

__all__ = ["Generation", "parse_chat", "parse_completion", "parse_json", "parse_tokenize"]

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


def parse_json(body: bytes) -> dict[str, Any]:
    """A JSON object; raises ApiError 400 otherwise."""
    try:
        data = json.loads(body)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        position = getattr(error, "pos", 0)
        reason = getattr(error, "msg", "not UTF-8")
        raise validation_error(
            "json_invalid",
            f"body.{position}",
            "JSON decode error",
            input="<dict of 0 items>",
            ctx={"error": reason},
        ) from error
    if not isinstance(data, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        raise validation_error("model_attributes_type", "body", message, input=f"<{type(data).__name__}>")
    return data


def parse_chat(data: dict[str, Any], settings: SimSettings, vocabulary: Vocabulary) -> Generation:
    """A body of /v1/chat/completions; raises ApiError."""
    messages = _messages(data)
    limit = _positive_int(data, "max_completion_tokens") or _positive_int(data, "max_tokens")
    text = render_chat(
        messages,
        data.get("tools") or (),
        data.get("documents") or (),
        generation_prompt=data.get("add_generation_prompt") is not False,
    )
    ids = vocabulary.encode(text)
    return _generation(data, settings, (ids,), chat=True, limit=limit, counted_exactly=False)


def parse_completion(data: dict[str, Any], settings: SimSettings, vocabulary: Vocabulary) -> Generation:
    """A body of /v1/completions; raises ApiError."""
    prompts = _prompt_forms(data.get("prompt"))
    limit = _positive_int(data, "max_tokens") or COMPLETION_MAX_TOKENS
    ids = tuple(vocabulary.encode(prompt) if isinstance(prompt, str) else prompt for prompt in prompts)
    exact = not any(isinstance(prompt, str) for prompt in prompts)
    echo: tuple[str, ...] = ()
    if data.get("echo"):
        echo = tuple(p if isinstance(p, str) else vocabulary.decode(p) for p in prompts)
    return _generation(data, settings, ids, chat=False, limit=limit, counted_exactly=exact, echo=echo)


def parse_tokenize(data: dict[str, Any], vocabulary: Vocabulary) -> list[int]:
    """A body of /tokenize: a prompt, or messages with the template applied; raises ApiError."""
    if isinstance(data.get("prompt"), str):
        return vocabulary.encode(data["prompt"])
    text = render_chat(
        _messages(data),
        data.get("tools") or (),
        generation_prompt=data.get("add_generation_prompt") is not False,
    )
    return vocabulary.encode(text)


def _messages(data: dict[str, Any]) -> list[Mapping[str, Any]]:
    if "messages" not in data:
        size = f"<dict of {len(data)} items>"
        raise validation_error("missing", "body.messages", "Field required", input=size)
    messages = data["messages"]
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        message = "Input should be a valid list"
        raise validation_error("list_type", "body.messages", message, input=f"<{type(messages).__name__}>")
    return messages


def _prompt_forms(prompt: object) -> list[str | list[int]]:
    """Every form of `prompt`: a string, a list of strings, token ids, a list of token ids."""
    if isinstance(prompt, str) and prompt:
        return [prompt]
    if isinstance(prompt, list) and prompt:
        if all(_is_token_id(item) for item in prompt):
            return [prompt]
        if all(isinstance(item, str) and item for item in prompt):
            return prompt
        if all(isinstance(item, list) and item and all(map(_is_token_id, item)) for item in prompt):
            return prompt
    message = "Value error, Either prompt or prompt_embeds must be provided and non-empty."
    raise validation_error("value_error", "body.prompt", message, input=f"<{type(prompt).__name__}>")


def _is_token_id(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and item >= 0


def _positive_int(data: dict[str, Any], name: str) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise validation_error("int_type", f"body.{name}", "Input should be a valid integer", input=value)
    if value < 1:
        raise bad_request(f"{name} must be at least 1, got {value}.", name, value)
    return value


def _generation(
    data: dict[str, Any],
    settings: SimSettings,
    prompts: tuple[list[int], ...],
    *,
    chat: bool,
    limit: int | None,
    counted_exactly: bool,
    echo: tuple[str, ...] = (),
) -> Generation:
    model = _model(data, settings)
    _check_temperature(data)
    options = data.get("stream_options") or {}
    if options and not data.get("stream"):
        message = "Value error, Stream options can only be defined when `stream=True`."
        raise validation_error("value_error", "body.stream_options", message)
    seed = data.get("seed")
    return Generation(
        chat=chat,
        model=model,
        adapter=model if model in settings.lora else None,
        prompts=prompts,
        max_tokens=tuple(_max_tokens(len(ids), limit, settings, exact=counted_exactly) for ids in prompts),
        n=_positive_int(data, "n") or 1,
        stream=bool(data.get("stream")),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
        runs_to_limit=bool(data.get("ignore_eos")),
        seed=seed if isinstance(seed, int) else 0,
        salt=data.get("cache_salt") or "",
        request_id=data.get("request_id"),
        stream_interval=max(settings.stream_interval, _positive_int(data, "stream_interval") or 1),
        echo_texts=echo,
    )


def _model(data: dict[str, Any], settings: SimSettings) -> str:
    model = data.get("model")
    if not model:
        return settings.model
    if model != settings.model and model not in settings.lora:
        raise model_not_found(model, settings.model)
    return str(model)


def _check_temperature(data: dict[str, Any]) -> None:
    temperature = data.get("temperature")
    if isinstance(temperature, int | float) and temperature < 0:
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
