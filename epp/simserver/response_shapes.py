"""The objects of `/v1/responses`, key by key in vLLM's order."""

import time
import uuid
from typing import Any

from epp.simserver.active import ActiveGeneration
from epp.simserver.replies import Usage
from epp.simserver.requests import Generation

__all__ = ["completed", "output_item", "response_object"]


def response_object(
    response_id: str, data: dict[str, Any], request: Generation, status: str
) -> dict[str, Any]:
    """A response that has no output yet."""
    return {
        "id": response_id,
        "created_at": int(time.time()),
        "incomplete_details": None,
        "instructions": data.get("instructions"),
        "metadata": data.get("metadata"),
        "model": request.model,
        "object": "response",
        "output": [],
        "parallel_tool_calls": True,
        "temperature": data.get("temperature", 1.0),
        "tool_choice": data.get("tool_choice", "auto"),
        "tools": data.get("tools", []),
        "top_p": data.get("top_p", 1.0),
        "background": bool(data.get("background")),
        "max_output_tokens": request.max_tokens[0],
        "max_tool_calls": None,
        "previous_response_id": data.get("previous_response_id"),
        "prompt": None,
        "reasoning": None,
        "service_tier": "auto",
        "status": status,
        "text": None,
        "top_logprobs": None,
        "truncation": "disabled",
        "usage": None,
        "user": data.get("user"),
    }


def completed(response: dict[str, Any], text: str, active: ActiveGeneration) -> None:
    """Put the output into a response; one that ran into its limit is incomplete."""
    status = "completed" if active.stopped_by_itself else "incomplete"
    response["status"] = status
    response["output"] = [output_item(text, status)]
    response["usage"] = _usage(active.usage)
    if status == "incomplete":
        response["incomplete_details"] = {"reason": "max_output_tokens"}


def output_item(text: str, status: str) -> dict[str, Any]:
    """A message of the assistant."""
    part = {"annotations": [], "text": text, "type": "output_text", "logprobs": []}
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "content": [part],
        "role": "assistant",
        "status": status,
        "type": "message",
        "phase": None,
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
