"""Prompts of the chat APIs: template arguments, then messages."""

from operator import attrgetter
from typing import Final

import msgspec

from epp.request.canonical import LARGE_BYTES, PromptBytes
from epp.request.parts import write_parts
from epp.request.schema import BatchBody, ChatBody, Message, MessagesBody, Part, ResponsesBody, TemplateBody
from epp.request.types import Prompt

__all__ = [
    "MAX_CONVERSATIONS", "batch_prompts", "begin_prompt", "chat_prompts", "continues", "is_billing_header",
    "messages_prompts", "responses_prompts", "write_message",
]  # fmt: skip

_ARGUMENTS: Final = (
    "chat_template", "chat_template_kwargs", "reasoning_effort", "add_special_tokens", "mm_processor_kwargs",
    "tools", "documents",
)  # fmt: skip
_BEFORE_CONTENT: Final = ("name", "tool_call_id", "reasoning", "reasoning_content")
MAX_CONVERSATIONS: Final = 1024

_BILLING_HEADER: Final = "x-anthropic-billing-header"
"""A system text that Claude Code sends with another hash in each request; vLLM drops it from the prompt."""

_arguments_of = attrgetter(*_ARGUMENTS)
_members_of = attrgetter(*_BEFORE_CONTENT, "tool_calls")
_decode_message = msgspec.json.Decoder(Message).decode
_decode_part = msgspec.json.Decoder(Part).decode


def chat_prompts(body: ChatBody) -> tuple[Prompt, ...]:
    """One prompt."""
    return _conversation(body, body.messages or [])


def batch_prompts(body: BatchBody) -> tuple[Prompt, ...]:
    """A prompt for each conversation, up to 1,024."""
    conversations = (body.messages or [])[:MAX_CONVERSATIONS]
    return tuple(prompt for messages in conversations for prompt in _conversation(body, messages))


def messages_prompts(body: MessagesBody) -> tuple[Prompt, ...]:
    """Anthropic's: the system text is a first message."""
    system = body.system
    if isinstance(system, list):
        system = [block for block in system if not is_billing_header(block)]
    first = [Message("system", system)] if system else []
    return _conversation(body, first + (body.messages or []))


def responses_prompts(body: ResponsesBody) -> tuple[Prompt, ...]:
    """Instructions are a first message; a text is the user's.

    None when the request continues a stored response: then the prompt's beginning is not in this body.
    """
    if not body.input or continues(body):
        return ()
    out = begin_prompt(body)
    if body.instructions:
        write_message(out, Message("system", body.instructions))
    if isinstance(body.input, str):
        write_message(out, Message("user", body.input))
    else:
        _write_items(out, body.input)
    return (Prompt(out.finish()),)


def continues(body: TemplateBody) -> bool:
    """Whether the prompt's beginning is in a stored response, and not in this body."""
    return bytes(body.previous_response_id) not in {b"", b"null"}


def _conversation(body: TemplateBody, messages: list[Message]) -> tuple[Prompt, ...]:
    if not messages:
        return ()
    out = begin_prompt(body)
    for message in messages:
        if out.is_full:
            break
        write_message(out, message)
    return (Prompt(out.finish()),)


def begin_prompt(body: TemplateBody, step_bytes: int = LARGE_BYTES) -> PromptBytes:
    """The arguments of the template stand first."""
    out = PromptBytes(step_bytes)
    arguments = _arguments_of(body)
    if any(arguments):
        for name, value in zip(_ARGUMENTS, arguments, strict=True):
            out.value(name, value)
    return out


def write_message(out: PromptBytes, message: Message) -> None:
    """Role, named members, content, calls of tools."""
    role, content = message.role or "", message.content
    if isinstance(content, str) and not any(_members_of(message)):
        out.spoken(role, content)
        return
    out.role(role)
    if message.name or message.tool_call_id or message.reasoning or message.reasoning_content:
        for name in _BEFORE_CONTENT:
            out.value(name, getattr(message, name))
    if isinstance(content, str):
        out.text(content)
    elif content:
        write_parts(out, content)
    if message.tool_calls:
        out.value("tool_calls", message.tool_calls)


def _write_items(out: PromptBytes, items: list[msgspec.Raw]) -> None:
    """Items of the Responses API: messages, and anything else as a part under an empty role."""
    for item in items:
        if out.is_full:
            return
        try:
            message = _decode_message(item)
        except msgspec.ValidationError:
            message = Message()
        write_message(out, Message("", [item]) if message.role is None else message)


def is_billing_header(block: msgspec.Raw) -> bool:
    """Whether a block of a system text is left out of the prompt."""
    try:
        return (_decode_part(block).text or "").startswith(_BILLING_HEADER)
    except msgspec.ValidationError:
        return False
