"""Which paths are whose."""

import pytest

from epp.app.lanes import Lane, lane_of


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/health", "/ping", "/version", "/load", "/v1/models"]
)
def test_what_probes_and_clients_ask_for_is_answered_for_the_pool(path):
    assert lane_of(path) is Lane.POOL


@pytest.mark.parametrize("path", ["/metrics", "/pick", "/docs", "/openapi.json", "/debug/state"])
def test_the_control_surface(path):
    assert lane_of(path) is Lane.CONTROL


@pytest.mark.parametrize(
    "path",
    [
        "/sleep",
        "/v1/load_lora_adapter",
        "/fault_tolerance/status",
        "/sleep/",
        "//sleep",
        "/./sleep",
        "/v1/../sleep",
        "/v1//load_lora_adapter",
    ],
)
def test_administration_is_recognised_in_every_spelling(path):
    assert lane_of(path) is Lane.ENGINE_ADMIN


@pytest.mark.parametrize(
    "path", ["/", "*", "/v1/chat/completions", "/sleepy", "/v1/sleep", "/Sleep", "/v1/models/m", "/anything"]
)
def test_everything_else_is_relayed(path):
    assert lane_of(path) is Lane.RELAY
