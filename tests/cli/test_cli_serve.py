"""`epp serve`: from flags to a running router, and its exit statuses."""

import pytest

from epp.cli import main, serve
from epp.errors import ConfigError


@pytest.fixture
def started(monkeypatch):
    """What would be served, without serving it; an exception in `error` is raised instead."""
    calls, error = [], []

    def pretend(settings, config, on_started=None):
        calls.append((settings, config))
        if error:
            raise error[0]

    monkeypatch.setattr(serve, "serve", pretend)
    for name in ("EPP_ENDPOINT", "EPP_CONFIG", "EPP_PORT", "EPP_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    return calls, error


def test_flags_become_settings_and_the_built_in_configuration_is_used(started):
    calls, _ = started

    status = main(
        ["serve", "--endpoint", "http://10.0.0.1:8000,zone=a", "--endpoint", "10.0.0.2", "--port", "0"]
    )
    [(settings, config)] = calls

    assert status == 0
    assert [endpoint.address for endpoint in settings.endpoint] == ["10.0.0.1:8000", "10.0.0.2:80"]
    assert settings.port == 0
    assert config.source == "built-in default.yaml"


def test_the_named_configuration_is_used(started):
    calls, _ = started

    main(["serve", "--endpoint", "10.0.0.1", "--config", "config/tiered-prefix-cpu.yaml"])

    assert calls[0][1].source == "config/tiered-prefix-cpu.yaml"


def test_without_an_endpoint_it_is_a_configuration_error_that_helps(started, capsys):
    assert main([]) == 2
    assert "endpoint: no endpoint is configured; give --endpoint http://host:port" in capsys.readouterr().err
    assert started[0] == []


def test_notices_go_to_standard_error(started, capsys, monkeypatch):
    monkeypatch.setenv("EPP_PORT", "tcp://10.0.0.1:8080")

    main(["--endpoint", "10.0.0.1"])

    assert capsys.readouterr().err == "epp: ignored, as they describe a Kubernetes Service: EPP_PORT\n"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(98, "Address already in use", "0.0.0.0:9000"),
            "cannot listen on 0.0.0.0:9000: Address already in use",
        ),
        (OSError(24, "Too many open files"), "cannot listen on 0.0.0.0:8080: Too many open files"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_a_message_and_1(started, capsys, error, message):
    started[1].append(error)

    assert main(["--endpoint", "10.0.0.1"]) == 1
    assert capsys.readouterr().err == f"epp: {message}\n"


def test_a_file_that_cannot_be_used_is_a_configuration_error(started, capsys):
    started[1].append(ConfigError([], "settings"))

    assert main(["--endpoint", "10.0.0.1"]) == 2


def test_help_shows_a_flag_for_every_setting_and_the_exit_statuses(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])

    out = capsys.readouterr().out
    assert ended.value.code == 0
    for word in ("--endpoint", "--drain-timeout", "--upstream-first-byte-timeout", "exit codes: 0 drained"):
        assert word in out
