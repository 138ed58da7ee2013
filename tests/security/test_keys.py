"""Keys of clients: how they are written and recognised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.security import ClientKey, KeyRing, parse_key, parse_keys

# printf s3cret | sha256sum
S3CRET = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0"
DIGEST = bytes.fromhex(S3CRET)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("s3cret", None),
        (f"sha256:{S3CRET}", None),
        (f"sha256:{S3CRET.upper()}", None),
        ("team-a=s3cret", "team-a"),
        (f"team_A.1=sha256:{S3CRET}", "team_A.1"),
        ("n" * 64 + "=s3cret", "n" * 64),
    ],
)
def test_a_key_is_written_plainly_or_hashed_with_or_without_a_name(text, name):
    assert parse_key(text) == ClientKey(DIGEST, name)


@pytest.mark.parametrize(
    ("text", "name", "secret"),
    [
        ("c2VjcmV0cw==", None, b"c2VjcmV0cw=="),
        ("c2VjcmV0cw=", None, b"c2VjcmV0cw="),
        ("=abc", None, b"=abc"),
        ("team=c2VjcmV0cw==", "team", b"c2VjcmV0cw=="),
        ("team==abc", "team", b"=abc"),
        ("sk/live=abc", None, b"sk/live=abc"),
        ("n" * 65 + "=abc", None, b"n" * 65 + b"=abc"),
        ("a=b=c", "a", b"b=c"),
    ],
)
def test_padding_of_base64_is_no_name(text, name, secret):
    key = parse_key(text)

    assert key.name == name
    assert KeyRing([key]).find(secret) is key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two words",
        "tab\there",
        "café",
        "a\x00b",
        "sha256:",
        "sha256:1ec1",
        f"sha256:{S3CRET}0",
        "n=sha256:x",
        "n=a b",
    ],
)
def test_a_faulty_key_is_refused_without_being_repeated(text):
    with pytest.raises(ValueError, match=r"^(a key must be|sha256: must be)") as raised:
        parse_key(text)

    assert len(text) < 8 or text not in str(raised.value)


def test_a_file_holds_a_key_a_line_beside_comments_and_empty_lines():
    keys = parse_keys(f"# team a\n\n  a=s3cret  \r\nsha256:{S3CRET}\n   # the end\n")

    assert keys == (ClientKey(DIGEST, "a"), ClientKey(DIGEST))


def test_a_faulty_line_of_a_file_is_told_by_its_number():
    with pytest.raises(
        ValueError, match=r"^line 3: a key must be printable ASCII without blanks, and not empty$"
    ):
        parse_keys("a=1\n#\nhunter2 hunter2\n")


@pytest.mark.parametrize("text", ["", "\n# nothing\n"])
def test_a_file_without_keys_is_refused(text):
    with pytest.raises(ValueError, match=r"^there is no key in it$"):
        parse_keys(text)


def test_a_key_is_never_printed_nor_its_digest():
    for key in (parse_key("hunter2"), parse_key("team=hunter2")):
        assert "hunter2" not in repr(key)
        assert key.digest.hex() not in repr(key)
    assert repr(parse_key("team=hunter2")) == "team=***"
    assert str(parse_key("hunter2")) == "***"


def test_the_key_among_several_is_found():
    ring = KeyRing(parse_keys("a=one\nb=two\nc=three\n"))

    assert [ring.find(key) for key in (b"one", b"three")] == [parse_key("a=one"), parse_key("c=three")]


@pytest.mark.parametrize(
    "presented", [b"", b"On", b"one ", b"onee", b"ONE", S3CRET.encode(), DIGEST, b"\xff\x00"]
)
def test_what_is_no_key_is_not_found(presented):
    assert KeyRing([*parse_keys("a=one\nb=s3cret\n")]).find(presented) is None


def test_every_key_is_compared_whichever_fits(monkeypatch):
    compared = []

    def compare(left, right):
        compared.append(left)
        return left == right

    monkeypatch.setattr("epp.security.keys.hmac.compare_digest", compare)
    ring = KeyRing(parse_keys("one\ntwo\nthree\n"))
    for presented in (b"one", b"three", b"none"):
        compared.clear()
        ring.find(presented)
        assert len(compared) == 3


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_any_visible_text_with_a_name_is_a_key_that_only_itself_opens(secret):
    if secret.startswith("sha256:") or not secret.strip("="):
        return
    key = parse_key(f"n={secret}")
    ring = KeyRing([key])

    assert ring.find(secret.encode()) is key
    assert ring.find(secret.encode() + b"x") is None
