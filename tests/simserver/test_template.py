"""The chat template: what the model sees, in which order."""

import pytest

from epp.simserver.template import render_chat


def test_messages_are_framed_and_the_assistant_is_asked():
    text = render_chat([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}])

    assert text == (
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_assistant_is_not_asked_when_told_so():
    assert render_chat([], generation_prompt=False) == ""


def test_tools_and_documents_come_before_messages():
    text = render_chat([{"role": "user", "content": "hi"}], [{"name": "f"}], [{"text": "d"}])

    assert text == (
        '<|im_start|>tools\nYou may call these functions:\n{"name": "f"}<|im_end|>\n'
        '<|im_start|>documents\n{"text": "d"}<|im_end|>\n'
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_tool_calls_follow_the_text_of_their_message():
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}

    assert render_chat([message], generation_prompt=False) == (
        '<|im_start|>assistant\n\n[{"id": "1"}]<|im_end|>\n'
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (["a", "b"], "a\nb"),
        ([7], ""),
        (7, ""),
        (None, ""),
    ],
)
def test_content_is_text_or_parts(content, text):
    assert render_chat([{"content": content}], generation_prompt=False) == (
        f"<|im_start|>user\n{text}<|im_end|>\n"
    )


def test_an_image_is_a_text_that_depends_on_its_reference_alone():
    def image(url):
        return render_chat([{"content": [{"type": "image_url", "image_url": {"url": url}}]}])

    assert image("https://example.test/a") == image("https://example.test/a")
    assert image("https://example.test/a") != image("https://example.test/b")
    assert len(image("https://example.test/a")) == len(image("https://example.test/b"))
