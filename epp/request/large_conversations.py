"""Prompts of the chat APIs in bodies that are read in steps: those of `epp.request.conversations`."""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from epp.request.canonical import PromptBytes
from epp.request.conversations import (
    MAX_CONVERSATIONS,
    begin_prompt,
    continues,
    is_billing_header,
    write_message,
)
from epp.request.long_json import is_list, list_of, string_or_none
from epp.request.parts import part_steps
from epp.request.schema import LongMessage, Message, TemplateBody
from epp.request.types import Prompt

__all__ = [
    "LargeBatch", "LargeChat", "LargeMessages", "LargeResponses", "PromptSteps",
    "batch_steps", "chat_steps", "messages_steps", "responses_steps",
]  # fmt: skip

PromptSteps = Generator[None, None, tuple[Prompt, ...]]
_Write = Callable[[PromptBytes, Raw], Generator[None, None, None]]

_WHOLE_BYTES: Final = 32_768  # a longer message is taken apart: it may have parts without number

_decode_message: Final = msgspec.json.Decoder(Message).decode
_decode_long_message: Final = msgspec.json.Decoder(LongMessage).decode


class LargeChat(TemplateBody, gc=False):
    """As `ChatBody`."""

    messages: Raw = Raw()


class LargeBatch(TemplateBody, gc=False):
    """As `BatchBody`."""

    messages: Raw = Raw()


class LargeMessages(TemplateBody, gc=False):
    """As `MessagesBody`."""

    system: Raw = Raw()
    messages: Raw = Raw()


class LargeResponses(TemplateBody, gc=False):
    """As `ResponsesBody`."""

    instructions: Raw = Raw()
    input: Raw = Raw()


def chat_steps(body: LargeChat, step_bytes: int) -> PromptSteps:
    """One prompt."""
    messages = list_of(body.messages)
    yield
    return (yield from _conversation(body, messages, step_bytes))


def batch_steps(body: LargeBatch, step_bytes: int) -> PromptSteps:
    """A prompt for each conversation."""
    prompts: list[Prompt] = []
    for messages in list_of(body.messages)[:MAX_CONVERSATIONS]:
        prompts += yield from _conversation(body, list_of(messages), step_bytes)
        yield
    return tuple(prompts)


def messages_steps(body: LargeMessages, step_bytes: int) -> PromptSteps:
    """The system text is a first message."""
    system = _content(body.system)
    if isinstance(system, list):
        system = [block for block in system if not is_billing_header(block)]
    messages = list_of(body.messages)
    if not _says_something(system) and not messages:
        return ()
    out = begin_prompt(body, step_bytes)
    if _says_something(system):
        yield from _write(out, Message("system"), system)
    return (yield from _finish(out, messages, _write_message))


def responses_steps(body: LargeResponses, step_bytes: int) -> PromptSteps:
    """Instructions are a first message; a text is the user's."""
    instructions, said = string_or_none(body.instructions), _content(body.input)
    if not _says_something(said) or continues(body):
        return ()
    out = begin_prompt(body, step_bytes)
    if _says_something(instructions):
        yield from _write(out, Message("system"), instructions)
    if isinstance(said, memoryview):
        yield from _write(out, Message("user"), said)
    return (yield from _finish(out, said if isinstance(said, list) else (), _write_item))


def _conversation(body: TemplateBody, messages: Sequence[Raw], step_bytes: int) -> PromptSteps:
    if not messages:
        return ()
    return (yield from _finish(begin_prompt(body, step_bytes), messages, _write_message))


def _finish(out: PromptBytes, messages: Iterable[Raw], write: _Write) -> PromptSteps:
    """The prompt after `messages`, of which about `step_bytes` are read in a step."""
    read, turn_at = 0, out.step_bytes
    for message in messages:
        if out.is_full:
            break
        yield from write(out, message)
        read += len(message)
        if read + out.cost_bytes > turn_at:
            turn_at = read + out.cost_bytes + out.step_bytes
            yield
    return (Prompt((yield from out.finish_steps())),)


def _write_message(out: PromptBytes, raw: Raw) -> Generator[None, None, None]:
    if len(raw) <= min(out.step_bytes, _WHOLE_BYTES):
        write_message(out, _decode_message(raw))
    else:
        message = _decode_long_message(raw)
        if len(raw) > out.step_bytes:
            yield
        yield from _write(out, _without_content(message), _content(message.content), message.tool_calls)


def _write_item(out: PromptBytes, raw: Raw) -> Generator[None, None, None]:
    """A message, or anything else as a part under an empty role."""
    try:
        message = _decode_long_message(raw)
        content = _content(message.content)
    except msgspec.ValidationError:
        message, content = LongMessage(), None
    if message.role is None:
        yield from _write(out, Message(""), [raw])
    else:
        yield from _write(out, _without_content(message), content, message.tool_calls)


def _without_content(message: LongMessage) -> Message:
    return Message(
        message.role,
        name=message.name,
        tool_call_id=message.tool_call_id,
        reasoning=message.reasoning,
        reasoning_content=message.reasoning_content,
    )


def _write(
    out: PromptBytes, head: Message, content: memoryview | list[Raw] | None, tool_calls: Raw | None = None
) -> Generator[None, None, None]:
    """A message, of which the JSON of a text is given."""
    write_message(out, head)
    if isinstance(content, memoryview):
        out.text_json(content)
    elif content:
        yield from part_steps(out, content)
    if tool_calls:
        out.value("tool_calls", tool_calls)


def _content(raw: Raw) -> memoryview | list[Raw] | None:
    """A text, a list, or nothing.

    Raises:
        ValidationError: something else.
    """
    if raw and is_list(memoryview(raw)):
        return list_of(raw)
    return string_or_none(raw)


def _says_something(content: memoryview | list[Raw] | None) -> bool:
    return content is not None and len(content) > (2 if isinstance(content, memoryview) else 0)
