"""Origins of pages."""

import pytest

from epp.config.web_origin import WebOrigin, parse_origin
from tests.config.test_settings_load import file, load, problems


@pytest.mark.parametrize(
    "text",
    ["*", "https://chat.example", "http://localhost:3000", "http://[::1]:8080", "chrome-extension://abc", "HTTPS://A.b"],
)  # fmt: skip
def test_what_an_origin_is(text):
    assert parse_origin(text) == WebOrigin(text.lower())
    assert str(parse_origin(text)) == text.lower()


@pytest.mark.parametrize(
    "text",
    ["chat.example", "https://", "https://a/", "https://a/b", "https://a b", "https://*.a", "null", ""],
)
def test_what_no_origin_is(text):
    with pytest.raises(ValueError, match="is no origin"):
        parse_origin(text)


def test_origins_are_a_list():
    flags = "--cors-allowed-origins https://a.example --cors-allowed-origins http://b:1"
    expected = (WebOrigin("https://a.example"), WebOrigin("http://b:1"))

    assert load(flags=flags)[0].cors.allowed_origins == expected
    assert (
        load(environ={"EPP_CORS_ALLOWED_ORIGINS": "https://a.example http://b:1"})[0].cors.allowed_origins
        == expected
    )
    assert (
        load(**file("cors: {allowedOrigins: ['https://a.example', 'http://b:1']}\n"))[0].cors.allowed_origins
        == expected
    )
    assert problems(**file("cors: {allowedOrigins: a}\n")) == [
        "s.yaml: cors.allowedOrigins (line 1): is no origin: a; write https://HOST, https://HOST:PORT or *"
    ]
