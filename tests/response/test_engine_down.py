"""Answers that speak for the whole endpoint."""

import json

import pytest

from epp.response import is_engine_down
from tests.response.transcripts import RECORDED


def error(message, **members):
    return json.dumps(
        {"error": {"message": message, "type": "InternalServerError", "code": 500, **members}}
    ).encode()


@pytest.mark.parametrize(
    "message",
    [
        "cannot schedule new futures after shutdown",
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "RuntimeError: Cannot schedule new futures after shutdown",
    ],
)
def test_a_draining_or_dead_engine_is_known_by_its_message(message):
    assert is_engine_down(500, error(message))


@pytest.mark.parametrize("status", [200, 400, 404, 429, 501, 503])
def test_only_a_500_speaks_for_the_engine(status):
    assert not is_engine_down(status, error("cannot schedule new futures after shutdown"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"Internal Server Error",
        b"cannot schedule new futures after shutdown",
        b"[]",
        b"null",
        b"{}",
        b'{"error":"EngineCore encountered an issue"}',
        b'{"error":null}',
        b'{"error":{"message":null}}',
        b'{"error":{"type":"EngineCore encountered an issue"}}',
        b'{"message":"EngineCore encountered an issue"}',
        b'{"error":{"message":"EngineCore encountered an is',
        b'{"error":' + b"[" * 100_000,
        b'{"error":{"message":"\xff EngineCore encountered an issue"}}',
        error("CUDA out of memory"),
        error("unsupported operand type(s) for +: 'int' and 'str'"),
        error("shutdown", detail="cannot schedule new futures after shutdown"),
    ],
)
def test_any_other_500_is_a_fault_of_one_request(body):
    assert not is_engine_down(500, body)


def test_no_recorded_error_speaks_for_the_engine():
    errors = json.loads((RECORDED / "responses.json").read_bytes())["errors"]
    assert len(errors) == 6
    for recorded in errors.values():
        assert not is_engine_down(500, recorded["body"].encode())
