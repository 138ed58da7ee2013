"""Which bytes stand for a conversation: the terminators are spelled out here as the documentation has them."""

import json

import pytest

from epp.request import Api, Prompt, parse_request


def prompts(body, api=Api.CHAT):
    return parse_request(api, json.dumps(body).encode()).prompts


def data(body, api=Api.CHAT):
    (prompt,) = prompts(body, api)
    assert not prompt.token_ids
    return prompt.data


def user(content, **members):
    return {"role": "user", "content": content, **members}


def test_a_message_is_its_role_and_its_text():
    assert data({"messages": [{"role": "system", "content": "Be brief."}, user("Xin chào")]}) == (
        b"system\xfeBe brief.\xffuser\xfeXin ch\xc3\xa0o\xff"
    )


def test_a_string_and_one_part_of_text_are_the_same():
    for part in ({"type": "text", "text": "hi"}, {"text": "hi"}, "hi", {"type": "input_text", "text": "hi"}):
        assert data({"messages": [user([part])]}) == b"user\xfehi\xff"


def test_every_part_of_text_ends_where_it_ends():
    assert data({"messages": [user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]}) == (
        b"user\xfea\xffb\xff"
    )
    assert data({"messages": [user("ab")]}) == b"user\xfeab\xff"


@pytest.mark.parametrize("message", [user(None), {"role": "user"}, user([])])
def test_null_and_absent_content_are_no_part(message):
    assert data({"messages": [message]}) == b"user\xfe"


def test_an_empty_text_is_a_part():
    assert data({"messages": [user("")]}) == b"user\xfe\xff"


def test_a_message_without_a_role_has_an_empty_one():
    assert data({"messages": [{"content": "hi"}, {"role": None, "content": "ho"}]}) == b"\xfehi\xff\xfeho\xff"


def test_tool_calls_and_their_answers_are_part_of_the_prompt():
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "42"},
    ]
    assert data({"messages": messages}) == (
        b'assistant\xfetool_calls\xfd[{"id": "c1", "function": {"name": "f"}}]\xfc'
        b'tool\xfename\xfd"f\xfctool_call_id\xfd"c1\xfc42\xff'
    )


def test_reasoning_stands_before_content_and_tool_calls_after_it():
    message = {
        "role": "assistant",
        "tool_calls": [1],
        "content": "c",
        "reasoning_content": "b",
        "reasoning": "a",
    }
    assert data({"messages": [message]}) == (
        b'assistant\xfereasoning\xfd"a\xfcreasoning_content\xfd"b\xfcc\xfftool_calls\xfd[1]\xfc'
    )


def test_a_member_that_is_null_or_empty_is_as_good_as_absent():
    message = {
        "role": "assistant", "content": "hi", "name": None, "tool_calls": [], "reasoning": "", "tool_call_id": None,
        "refusal": None, "audio": None, "annotations": [],
    }  # fmt: skip
    assert data({"messages": [message]}) == b"assistant\xfehi\xff"


def test_template_arguments_stand_before_messages_in_a_fixed_order():
    body = {
        "messages": [user("hi")],
        "documents": [{"text": "d"}],
        "tools": [{"type": "function"}],
        "add_special_tokens": False,
        "mm_processor_kwargs": {"a": 1},
        "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": False},
        "chat_template": "{{ x }}",
    }
    assert data(body) == (
        b'chat_template\xfd"{{ x }}\xfcchat_template_kwargs\xfd{"enable_thinking": false}\xfcreasoning_effort\xfd"low\xfc'
        b'add_special_tokens\xfdfalse\xfcmm_processor_kwargs\xfd{"a": 1}\xfctools\xfd[{"type": "function"}]\xfc'
        b'documents\xfd[{"text": "d"}]\xfcuser\xfehi\xff'
    )


def test_arguments_that_say_nothing_are_as_good_as_absent():
    nothing = {
        "tools": None,
        "documents": [],
        "chat_template": "",
        "chat_template_kwargs": {},
        "reasoning_effort": None,
    }
    assert data({"messages": [user("hi")], **nothing}) == b"user\xfehi\xff"


def test_what_does_not_come_before_the_messages_is_no_part_of_the_prompt():
    other = {
        "temperature": 1,
        "add_generation_prompt": False,
        "tool_choice": "auto",
        "n": 2,
        "user": "u",
        "stop": ["x"],
    }
    assert data({"messages": [user("hi")], **other}) == b"user\xfehi\xff"


def test_a_string_is_told_from_json_that_spells_the_same():
    as_text = data({"messages": [user("hi")], "chat_template": "[1]"})
    assert as_text.startswith(b'chat_template\xfd"[1]\xfc')
    assert data({"messages": [user("hi")], "chat_template": [1]}).startswith(b"chat_template\xfd[1]\xfc")


@pytest.mark.parametrize("messages", [None, []])
def test_no_messages_are_no_prompt(messages):
    assert prompts({"messages": messages, "tools": [1]}) == ()
    assert prompts({}) == ()


def test_a_batch_has_a_prompt_for_each_conversation():
    body = {"messages": [[user("a")], [], [user("b"), user("c")]], "tools": [1]}
    assert prompts(body, Api.CHAT_BATCH) == (
        Prompt(b"tools\xfd[1]\xfcuser\xfea\xff"),
        Prompt(b"tools\xfd[1]\xfcuser\xfeb\xffuser\xfec\xff"),
    )
    assert prompts({}, Api.CHAT_BATCH) == ()


def test_a_batch_shows_at_most_1024_conversations():
    assert len(prompts({"messages": [[user("a")]] * 1025}, Api.CHAT_BATCH)) == 1024


def test_a_prompt_of_too_many_messages_is_cut_to_a_prefix_of_itself():
    whole = data({"messages": [user("a")] * 20_000})
    assert whole == b"user\xfea\xff" * 16_384


def test_rendering_shows_the_prompt_of_its_api():
    assert data({"messages": [user("hi")]}, Api.CHAT_RENDER) == b"user\xfehi\xff"
    assert data({"prompt": "hi"}, Api.COMPLETIONS_RENDER) == b"hi"
    assert data({"input": "hi"}, Api.RESPONSES_RENDER) == b"user\xfehi\xff"
    assert data({"messages": [user("hi")]}, Api.MESSAGES_RENDER) == b"user\xfehi\xff"


class TestMessages:
    """Anthropic's API."""

    def test_the_system_text_is_a_first_message(self):
        body = {"system": "Be brief.", "messages": [user("hi")], "tools": [{"name": "t"}], "max_tokens": 5}
        assert (
            data(body, Api.MESSAGES) == b'tools\xfd[{"name": "t"}]\xfcsystem\xfeBe brief.\xffuser\xfehi\xff'
        )

    def test_system_blocks_are_parts(self):
        body = {
            "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "messages": [user("hi")],
        }
        assert data(body, Api.MESSAGES) == b"system\xfea\xffb\xffuser\xfehi\xff"

    @pytest.mark.parametrize("system", [None, "", []])
    def test_no_system_text_is_no_message(self, system):
        assert data({"system": system, "messages": [user("hi")]}, Api.MESSAGES) == b"user\xfehi\xff"

    def test_a_billing_header_that_differs_in_each_request_is_left_out_as_vllm_does(self):
        header = {"type": "text", "text": "x-anthropic-billing-header: cch=1f3a;"}
        blocks = [header, {"type": "text", "text": "a"}, "b", 5]
        assert data({"system": blocks, "messages": [user("hi")]}, Api.MESSAGES) == (
            b"system\xfea\xffb\xff\xfd5\xfa\xf8user\xfehi\xff"
        )
        assert data({"system": [header], "messages": [user("hi")]}, Api.MESSAGES) == b"user\xfehi\xff"

    def test_a_mark_for_the_cache_is_no_part_of_the_prompt(self):
        mark = {"cache_control": {"type": "ephemeral"}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "42"}
        for block in ({"type": "text", "text": "a"}, result):
            marked = data({"messages": [user([{**block, **mark}])]}, Api.MESSAGES)
            assert marked == data({"messages": [user([block])]}, Api.MESSAGES)

    def test_the_use_of_a_tool_and_its_result_stand_by_their_members(self):
        use = {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}
        result = {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [{"type": "text", "text": "42"}],
            "is_error": False,
        }
        body = {"messages": [{"role": "assistant", "content": [use]}, user([result])]}
        assert data(body, Api.MESSAGES) == (
            b'assistant\xfetype\xfd"tool_use\xfaid\xfd"t1\xfaname\xfd"f\xfainput\xfd{"x": 1}\xfa\xf8'
            b'user\xfetype\xfd"tool_result\xfatool_use_id\xfd"t1\xfacontent\xfd\xf942\xff\xf8is_error\xfdfalse\xfa\xf8'
        )


class TestResponses:
    """OpenAI's Responses API."""

    def test_a_text_is_the_users_message(self):
        assert data({"input": "hi"}, Api.RESPONSES) == b"user\xfehi\xff"
        assert data({"input": [user("hi")]}, Api.RESPONSES) == b"user\xfehi\xff"
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
        assert data({"input": [item]}, Api.RESPONSES) == b"user\xfehi\xff"

    def test_instructions_are_a_first_message(self):
        body = {"instructions": "Be brief.", "input": "hi", "tools": [1]}
        assert data(body, Api.RESPONSES) == b"tools\xfd[1]\xfcsystem\xfeBe brief.\xffuser\xfehi\xff"

    def test_other_items_stand_by_their_members_under_an_empty_role(self):
        items = [
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
            7,
        ]
        assert data({"input": items}, Api.RESPONSES) == (
            b'\xfetype\xfd"function_call\xfacall_id\xfd"c1\xfaname\xfd"f\xfaarguments\xfd"{}\xfa\xf8'
            b'\xfetype\xfd"function_call_output\xfacall_id\xfd"c1\xfaoutput\xfd"42\xfa\xf8'
            b"\xfe\xfd7\xfa\xf8"
        )

    @pytest.mark.parametrize("value", [None, "", []])
    def test_no_input_is_no_prompt(self, value):
        assert prompts({"input": value, "instructions": "x"}, Api.RESPONSES) == ()

    def test_a_continued_response_shows_no_prompt_because_its_beginning_is_elsewhere(self):
        assert prompts({"input": "hi", "previous_response_id": "resp_1"}, Api.RESPONSES) == ()
        assert len(prompts({"input": "hi", "previous_response_id": None}, Api.RESPONSES)) == 1

    def test_too_many_items_are_cut_to_a_prefix(self):
        assert data({"input": [user("a")] * 20_000}, Api.RESPONSES) == b"user\xfea\xff" * 16_384
