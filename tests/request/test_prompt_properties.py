"""Properties of the bytes that stand for a prompt, against a reader that undoes them."""

import contextlib
import json
import re

from hypothesis import given
from hypothesis import strategies as st

from epp.errors import BadRequestError
from epp.request import Api, parse_request

# Few letters, quotes and punctuation of JSON among them, so that mix-ups of neighbouring fields would show.
texts = st.text(alphabet='ab"[\\/\n\u0000\u007fé模😀 ', max_size=5)
names = st.sampled_from(["name", "tool_call_id", "reasoning"])
json_values = st.recursive(
    texts | st.integers(0, 9) | st.none(), lambda inner: st.lists(inner, max_size=2), max_leaves=3
)
other_parts = st.dictionaries(st.sampled_from(["a", "b=", "type"]), json_values, max_size=2)
parts = texts.map(lambda text: {"type": "text", "text": text}) | other_parts
messages = st.fixed_dictionaries(
    {"role": texts, "content": st.none() | texts | st.lists(parts, max_size=3)},
    optional={
        "name": texts,
        "tool_call_id": texts,
        "reasoning": texts,
        "tool_calls": st.lists(json_values, max_size=2),
    },
)
conversations = st.lists(messages, min_size=1, max_size=4)
arguments = st.fixed_dictionaries(
    {}, optional={"chat_template": texts, "tools": st.lists(json_values, max_size=2)}
)


def data(messages, arguments=None, **dumps):
    body = json.dumps({"messages": messages, **(arguments or {})}, **dumps).encode()
    (prompt,) = parse_request(Api.CHAT, body).prompts
    return prompt.data


def compact(value):
    return value if isinstance(value, str) else json.dumps(value)


def meaning(messages, arguments):
    """What must be recoverable: a plain text, its only part and a string part are one; empty members are absent."""
    said = [(name, compact(arguments[name])) for name in ("chat_template", "tools") if arguments.get(name)]
    read = []
    for message in messages:
        content = message["content"]
        content = [] if content is None else [content] if isinstance(content, str) else content
        members = [
            (name, message[name]) for name in ("name", "tool_call_id", "reasoning") if message.get(name)
        ]
        calls = [("tool_calls", compact(message["tool_calls"]))] if message.get("tool_calls") else []
        read.append((message["role"], members, [part_meaning(part) for part in content], calls))
    return said, read


def part_meaning(part):
    if isinstance(part, str):
        return part
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return part["text"]
    return tuple((name, compact(value)) for name, value in part.items())


def undo(written):
    """The meaning of prompt bytes, by the documented terminators alone."""
    tokens = [(text.decode(), end) for text, end in re.findall(rb"([^\xf8-\xff]*)([\xf8-\xff])", written)]
    said, read, name, part = [], [], None, []
    for text, end in tokens:
        if end == b"\xfe":
            read.append((text, [], [], []))
        elif end == b"\xfd":
            name = text
        elif end == b"\xfc":
            value = (name, text.removeprefix('"'))
            if not read:
                said.append(value)
            else:
                read[-1][3 if name == "tool_calls" else 1].append(value)
        elif end == b"\xff":
            read[-1][2].append(text)
        elif end == b"\xfa":
            part.append((name, text.removeprefix('"')))
        else:
            assert end == b"\xf8"
            read[-1][2].append(tuple(part))
            part = []
    return said, read


@given(conversations, arguments)
def test_the_bytes_can_be_undone_so_that_no_two_prompts_share_them(messages, arguments):
    assert undo(data(messages, arguments)) == meaning(messages, arguments)


@given(conversations, arguments, messages)
def test_a_further_message_keeps_all_earlier_bytes(messages, arguments, further):
    assert data([*messages, further], arguments).startswith(data(messages, arguments))


@given(conversations, texts, st.lists(parts, max_size=3), parts)
def test_a_further_part_keeps_all_earlier_bytes(messages, role, content, further):
    earlier = data([*messages, {"role": role, "content": content}])
    assert data([*messages, {"role": role, "content": [*content, further]}]).startswith(earlier)


@given(conversations, texts, texts, texts)
def test_longer_text_keeps_all_bytes_but_the_end_of_the_field(messages, role, content, further):
    earlier = data([*messages, {"role": role, "content": content}])
    later = data([*messages, {"role": role, "content": content + further}])
    assert earlier.endswith(b"\xff")
    assert later.startswith(earlier[:-1])


@given(st.lists(st.fixed_dictionaries({"role": texts, "content": texts, "name": texts}), min_size=1), texts)
def test_escaped_and_plain_text_are_the_same(messages, template):
    arguments = {"chat_template": template}
    assert data(messages, arguments, ensure_ascii=True) == data(messages, arguments, ensure_ascii=False)


@given(texts)
def test_text_escaped_to_the_last_character_is_the_same(text):
    units = text.encode("utf-16-be")
    escaped = "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2))
    for template in ('{"messages":[{"role":"u","content":%s}]}', '{"messages":[{"role":"u","content":[{"text":%s}]}]}',
                     '{"messages":[{"role":"u","name":%s}]}', '{"messages":[{"role":"u","content":[{"a":%s}]}]}'):  # fmt: skip
        plain = template % json.dumps(text, ensure_ascii=False).replace("/", "\\/")
        spelled = template % f'"{escaped}"'
        assert (
            parse_request(Api.CHAT, plain.encode()).prompts
            == parse_request(Api.CHAT, spelled.encode()).prompts
        )


@given(conversations, texts)
def test_a_string_is_the_same_as_one_part_of_text(messages, text):
    as_part = [*messages, {"role": "user", "content": [{"type": "text", "text": text}]}]
    assert data([*messages, {"role": "user", "content": text}]) == data(as_part)


@given(st.lists(st.fixed_dictionaries({"role": texts, "content": texts | st.lists(texts)}), min_size=1))
def test_spaces_between_fields_do_not_matter(messages):
    assert data(messages, indent=3) == data(messages, separators=(",", ":"))


@given(st.text(), st.text())
def test_a_longer_completion_prompt_keeps_all_earlier_bytes(text, further):
    def completion(prompt):
        (written,) = parse_request(Api.COMPLETIONS, json.dumps({"prompt": prompt + "."}).encode()).prompts
        return written.data[:-1]

    assert completion(text + further).startswith(completion(text))
    assert completion(text) == text.encode()


@given(st.binary(max_size=60), st.sampled_from([api for api in Api if api is not Api.OTHER]))
def test_no_bytes_raise_anything_but_a_bad_request(body, api):
    for candidate in (body, b'{"messages":[{"content":[' + body, b'{"prompt":"' + body + b'"}'):
        with contextlib.suppress(BadRequestError):
            parse_request(api, candidate)
