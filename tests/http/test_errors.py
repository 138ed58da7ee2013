"""Errors of the router as HTTP answers."""

import json

import pytest

from epp.errors import BadRequestError, NoEndpointsError, SaturatedError, UnauthorizedError
from epp.http.errors import error_response


def test_body_has_the_shape_of_openai_and_what_anthropic_adds():
    status, headers, body = error_response(BadRequestError("no model", param="model"))

    assert status == 400
    assert json.loads(body) == {
        "error": {
            "message": "no model",
            "type": "invalid_request_error",
            "param": "model",
            "code": "bad_request",
        },
        "type": "error",
    }
    assert headers == [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]


def test_length_counts_bytes_and_not_characters():
    _, headers, body = error_response(BadRequestError("模型"))

    assert dict(headers)[b"content-length"] == b"%d" % len(body)
    assert "模型" in body.decode()


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (SaturatedError("full"), 429, b"rejected-saturated"),
        (NoEndpointsError("none"), 503, b"rejected-no-endpoints"),
    ],
)
def test_reason_and_time_to_retry_are_headers(error, status, reason):
    answered, headers, _ = error_response(error)

    assert answered == status
    assert headers[2:] == [(b"x-llm-d-request-dropped-reason", reason), (b"retry-after", b"1")]


def test_a_missing_key_is_asked_for_by_its_scheme():
    _, headers, _ = error_response(UnauthorizedError("no key"))

    assert headers[2:] == [(b"www-authenticate", b'Bearer realm="epp"')]
