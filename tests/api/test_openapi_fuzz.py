"""Requests made up from the OpenAPI page, fitting and not: no route of the control surface fails, and what is
refused is refused in our format.
"""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from tests.api.surface import Surface

SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", Surface().app)
# Relayed routes are served elsewhere.
OPERATIONS = {
    operation.label: operation
    for operation in (found.ok() for found in SCHEMA.get_all_operations())
    if "relayed" not in operation.tags
}


def test_every_route_of_the_control_surface_is_on_the_page():
    assert set(OPERATIONS) == {
        "GET /healthz", "GET /readyz", "GET /health", "GET /ping", "GET /version", "GET /load", "GET /v1/models",
        "GET /debug/decisions", "GET /debug/state", "GET /debug/config", "POST /pick", "GET /metrics",
    }  # fmt: skip


WITH_PARAMETERS = ("GET /debug/decisions", "GET /debug/state", "POST /pick")
CASES = [
    *((label, GenerationMode.POSITIVE) for label in OPERATIONS),
    *((label, GenerationMode.NEGATIVE) for label in WITH_PARAMETERS),  # where something can be wrong
]


@pytest.mark.parametrize(("label", "mode"), CASES, ids=str)
def test_whatever_a_route_is_asked_it_answers_in_order(label, mode):
    operation = OPERATIONS[label]

    @settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        answer = case.call(headers={"x-epp-admin-key": "key"})
        assert answer.status_code < 500
        if answer.status_code >= 400:
            assert answer.headers["x-request-id"]
            error = answer.json()["error"]
            assert error["message"]
            assert error["code"] in {
                "bad_request", "model_not_found", "method_not_allowed", "payload_too_large", "response_not_found",
                "unsupported_content_encoding", "route_not_found",
            }  # fmt: skip

    check()
