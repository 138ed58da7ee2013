"""Media and other parts of a message's content."""

import json

import pytest

from epp.request import Api, parse_request


def data(*parts, raw=None):
    content = raw or json.dumps(list(parts), ensure_ascii=False).encode()
    body = b'{"messages":[{"role":"user","content":' + content + b"}]}"
    (prompt,) = parse_request(Api.CHAT, body).prompts
    return prompt.data.removeprefix(b"user\xfe")


def image(url):
    return {"type": "image_url", "image_url": {"url": url}}


def medium(name, digest):
    return name + b"\xfd" + digest * 128 + b"\xfb"


URL = b"ce95f36ca4613a96a844ab0aa3e83719"  # xxh3-128 of http://x/i.png
DATA_URL = b"1286479cab8d3d5384c7cc2bc653534f"  # of data:image/png;base64,iVBORw0KGgo=
WAV = b"8f1da2c90b81b86de20ddf01ad9620b3"  # of {"data": "UklGRg==", "format": "wav"}


def test_an_image_is_the_digest_of_its_url_on_4096_bytes():
    assert data(image("http://x/i.png")) == medium(b"image_url", URL)
    assert data(image("data:image/png;base64,iVBORw0KGgo=")) == medium(b"image_url", DATA_URL)
    assert len(data(image("http://x/i.png"))) == 4096 + len("image_url") + 2


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://x/i.png", "detail": "high"}},
        {"type": "image_url", "image_url": "http://x/i.png"},
        {"type": "input_image", "image_url": "http://x/i.png"},
        {"image_url": {"url": "http://x/i.png"}},
    ],
)
def test_an_image_by_the_same_url_is_the_same_in_every_form(part):
    assert data(part) == medium(b"image_url", URL)


def test_an_escaped_url_is_the_url_it_spells():
    assert data(raw=b'[{"image_url":{"url":"http:\\/\\/x\\u002fi.png"}}]') == medium(b"image_url", URL)


def test_other_media_are_told_apart_by_kind():
    assert data({"type": "video_url", "video_url": {"url": "http://x/i.png"}}) == medium(b"video_url", URL)
    assert data({"type": "audio_url", "audio_url": {"url": "http://x/i.png"}}) == medium(b"audio_url", URL)


def test_media_without_a_url_are_digests_of_their_json():
    audio = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    assert data(audio) == medium(b"input_audio", WAV)
    assert data({"type": "image_embeds", "image_embeds": [1, 2]}) == medium(
        b"image_embeds", b"a21d8cffef143f5cb744df9602446922"
    )
    base64 = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
    assert data({"type": "image", "source": base64}) == medium(b"source", b"8b1462f8251c2a5c0bd0680f62281e53")
    assert data({"type": "image_url", "image_url": {"url": None}}).startswith(b"image_url\xfd")


def test_a_medium_that_the_endpoint_knows_by_uuid_stands_by_its_members():
    assert data({"type": "image_url", "image_url": None, "uuid": "u1"}) == (
        b'type\xfd"image_url\xfaimage_url\xfdnull\xfauuid\xfd"u1\xfa\xf8'
    )


def test_a_part_of_two_media_stands_by_its_members():
    assert data({"image_url": "a", "video_url": "b"}) == b'image_url\xfd"a\xfavideo_url\xfd"b\xfa\xf8'


def test_text_around_media_keeps_its_place():
    before = data({"text": "a"}, image("http://x/i.png"))
    assert before == b"a\xff" + medium(b"image_url", URL)
    assert data({"text": "a"}, image("http://x/i.png"), {"text": "b"}) == before + b"b\xff"


@pytest.mark.parametrize(
    "part, written",
    [
        ({"type": "refusal", "refusal": "no"}, b'type\xfd"refusal\xfarefusal\xfd"no\xfa\xf8'),
        ({"type": "thinking", "thinking": "\n"}, b'type\xfd"thinking\xfathinking\xfd"\n\xfa\xf8'),
        ({"type": "new", "text": "t"}, b'type\xfd"new\xfatext\xfd"t\xfa\xf8'),
        ({"type": 5, "text": "t"}, b'type\xfd5\xfatext\xfd"t\xfa\xf8'),
        ({"a=b": {"c": 1}}, b'a=b\xfd{"c": 1}\xfa\xf8'),
        ({}, b"\xf8"),
        (5, b"\xfd5\xfa\xf8"),
        (None, b"\xfdnull\xfa\xf8"),
        ([1], b"\xfd[1]\xfa\xf8"),
    ],
)
def test_any_other_part_stands_by_its_members(part, written):
    assert data(part) == written


def test_a_string_among_the_parts_is_text():
    assert data("a\u00e9\n") == b"a\xc3\xa9\n\xff"


def test_parts_inside_a_part_are_parts_but_not_those_inside_them():
    inner = {"type": "x", "content": [{"type": "text", "text": "deep"}]}
    assert data({"type": "tool_result", "content": ["a", inner]}) == (
        b'type\xfd"tool_result\xfacontent\xfd\xf9a\xff'
        b'type\xfd"x\xfacontent\xfd[{"type": "text", "text": "deep"}]\xfa\xf8\xf8\xf8'
    )


def test_an_image_inside_the_result_of_a_tool_is_a_digest():
    part = {"type": "tool_result", "content": [image("http://x/i.png")]}
    assert data(part) == b'type\xfd"tool_result\xfacontent\xfd\xf9' + medium(b"image_url", URL) + b"\xf8\xf8"


def test_past_256_media_a_digest_stands_once():
    written = data(*[image("http://x/i.png")] * 257)
    assert written == medium(b"image_url", URL) * 256 + b"image_url\xfd" + URL + b"\xfb"


def test_too_many_parts_are_cut_to_a_prefix():
    assert data(*["a"] * 40_000) == b"a\xff" * 32_767


def test_too_many_members_are_cut_to_a_prefix():
    assert data({f"m{i:05}": 1 for i in range(20_000)}) == (
        b"".join(b"m%05d\xfd1\xfa" % i for i in range(16_384)) + b"\xf8"
    )


def test_a_long_inline_image_is_never_copied_into_the_prompt():
    assert len(data(image("data:image/png;base64," + "QUJD" * 500_000))) == 4107
