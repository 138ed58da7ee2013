"""Answers of the endpoint itself."""

import pytest

from epp.doctor import Answer, Severity
from tests.doctor.builders import DEFAULT, IDLE, REFUSED, TIMED_OUT, found, models, seen


def test_a_recorded_server_with_the_built_in_configuration_has_nothing_to_change():
    assert set(found(seen())) == {"cpu-capacity-untold"}


def test_an_endpoint_that_refuses_connections_is_an_error_and_nothing_else_is_said():
    refused = seen(health=REFUSED, page=REFUSED, models_list=REFUSED, version_page=REFUSED)

    findings = found(refused)

    assert set(findings) == {"endpoint-unreachable"}
    assert findings["endpoint-unreachable"].severity is Severity.ERROR
    assert findings["endpoint-unreachable"].endpoint == "10.0.0.1:8000"
    assert findings["endpoint-unreachable"].seen == "http://10.0.0.1:8000: [Errno 111] Connect call failed"


@pytest.mark.parametrize(
    ("health", "told"),
    [(Answer(503), "/health answered 503"), (TIMED_OUT, "/health: not complete within 5 s")],
)
def test_an_ill_health_page_is_an_error(health, told):
    assert found(seen(health=health))["endpoint-not-ready"].seen == told


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_a_health_page_is_not_ill(status):
    assert "endpoint-not-ready" not in found(seen(health=Answer(status)))


@pytest.mark.parametrize("status", [401, 403])
def test_a_wanted_key_is_told_with_the_setting(status):
    finding = found(seen(models_list=Answer(status)))["models-refused"]

    assert finding.severity is Severity.WARNING
    assert "endpointKey" in finding.remedy


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(404), "/v1/models answered 404"),
        (Answer(200, b"<html>"), "not a list of models: JSON is malformed: invalid character (byte 0)"),
    ],
)
def test_models_that_cannot_be_listed_are_told(answer, told):
    assert found(seen(models_list=answer))["models-unlisted"].seen == told


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(404), "/version answered 404"),
        (Answer(200, b"[]"), "/version answered 200"),
        (Answer(200, b'{"version": "0.1.dev1+g1234567"}'), "version '0.1.dev1+g1234567'"),
        (Answer(200, b'{"version": "main"}'), "version 'main'"),
    ],
)
def test_an_unknown_version_is_told(answer, told):
    assert found(seen(version_page=answer))["version-untold"].seen == told


def test_another_engine_need_not_tell_a_version():
    page = "sglang:num_queue_reqs 0\n"

    assert "version-untold" not in found(seen(page=page, version_page=Answer(404)))


def test_a_sleeping_engine_is_an_error():
    page = IDLE.replace('sleep_state="awake"} 1.0', 'sleep_state="awake"} 0.0')

    assert found(seen(page=page))["engine-asleep"].severity is Severity.ERROR


def test_adapters_are_listed_as_information():
    listed = models("tiny") + models("sql", "poet", parent="tiny")

    findings = found(seen(listed=listed), config=DEFAULT)

    assert findings["adapters-served"].seen == "adapters in /v1/models: sql, poet"
    assert findings["adapters-served"].severity is Severity.INFO
