"""The chat template of the simulated model: ChatML, with tools and documents before the messages."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["render_chat"]

IMAGE_REPEATS = 4
"""An image becomes its digest, repeated: about 300 tokens that depend on its reference."""


def render_chat(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Any] = (),
    documents: Sequence[Any] = (),
    *,
    generation_prompt: bool = True,
) -> str:
    """The text that the model sees."""
    parts = []
    if tools:
        lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        parts.append(f"<|im_start|>tools\nYou may call these functions:\n{lines}<|im_end|>\n")
    if documents:
        lines = "\n".join(json.dumps(document, ensure_ascii=False) for document in documents)
        parts.append(f"<|im_start|>documents\n{lines}<|im_end|>\n")
    parts += [_render_message(message) for message in messages]
    if generation_prompt:
        parts.append("<|im_start|>assistant\n")
    return "".join(parts)


def _render_message(message: Mapping[str, Any]) -> str:
    text = _content_text(message.get("content"))
    if message.get("tool_calls"):
        text += "\n" + json.dumps(message["tool_calls"], ensure_ascii=False)
    return f"<|im_start|>{message.get('role', 'user')}\n{text}<|im_end|>\n"


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(_part_text(part) for part in content)
    return ""


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    digest = hashlib.blake2b(json.dumps(part, sort_keys=True).encode(), digest_size=48).hexdigest()
    return f"<image>{digest * IMAGE_REPEATS}</image>"
