"""The tree of settings: names, defaults, secrets."""

import argparse

import pytest

from epp.config.flags import add_settings_flags
from epp.config.leaf import LeafKind, Secret
from epp.config.settings import Settings, leaves, sections
from epp.config.settings_load import load_settings
from epp.config.values import show_default, show_value
from epp.endpoints.types import EndpointSpec

LEAVES = {leaf.path: leaf for leaf in leaves()}


@pytest.mark.parametrize(
    ("path", "flag", "variable", "kind", "default"),
    [
        ("host", "--host", "EPP_HOST", LeafKind.TEXT, "0.0.0.0"),
        ("port", "--port", "EPP_PORT", LeafKind.INTEGER, "8080"),
        ("adminPort", "--admin-port", "EPP_ADMIN_PORT", LeafKind.INTEGER, "0"),
        ("endpoint", "--endpoint", "EPP_ENDPOINT", LeafKind.ENDPOINTS, "none"),
        ("config", "--config", "EPP_CONFIG", LeafKind.TEXT, "the built-in config/default.yaml"),
        ("maxRequestBytes", "--max-request-bytes", "EPP_MAX_REQUEST_BYTES", LeafKind.SIZE, "64MiB"),
        ("maxBufferedBytes", "--max-buffered-bytes", "EPP_MAX_BUFFERED_BYTES", LeafKind.SIZE, "1GiB"),
        ("drainTimeout", "--drain-timeout", "EPP_DRAIN_TIMEOUT", LeafKind.DURATION, "30s"),
        ("adminKey", "--admin-key", "EPP_ADMIN_KEY", LeafKind.CREDENTIAL, "none"),
        ("seed", "--seed", "EPP_SEED", LeafKind.INTEGER, "random"),
        ("log.format", "--log-format", "EPP_LOG_FORMAT", LeafKind.TEXT, "auto"),
        ("accessLog.enabled", "--access-log-enabled", "EPP_ACCESS_LOG_ENABLED", LeafKind.SWITCH, "true"),
        (
            "upstream.firstByteTimeout",
            "--upstream-first-byte-timeout",
            "EPP_UPSTREAM_FIRST_BYTE_TIMEOUT",
            LeafKind.DURATION,
            "600s",
        ),
        (
            "upstream.totalTimeout",
            "--upstream-total-timeout",
            "EPP_UPSTREAM_TOTAL_TIMEOUT",
            LeafKind.DURATION,
            "0s",
        ),
        (
            "client.maxHeadBytes",
            "--client-max-head-bytes",
            "EPP_CLIENT_MAX_HEAD_BYTES",
            LeafKind.SIZE,
            "64KiB",
        ),
        ("retry.budgetPercent", "--retry-budget-percent", "EPP_RETRY_BUDGET_PERCENT", LeafKind.INTEGER, "20"),
        (
            "metrics.refreshInterval",
            "--metrics-refresh-interval",
            "EPP_METRICS_REFRESH_INTERVAL",
            LeafKind.DURATION,
            "500ms idle, 200ms under load",
        ),
        (
            "health.ejectionTime",
            "--health-ejection-time",
            "EPP_HEALTH_EJECTION_TIME",
            LeafKind.DURATION,
            "5s",
        ),
        (
            "receipts.exposeEndpoint",
            "--receipts-expose-endpoint",
            "EPP_RECEIPTS_EXPOSE_ENDPOINT",
            LeafKind.SWITCH,
            "true",
        ),
        ("stream.errorEvent", "--stream-error-event", "EPP_STREAM_ERROR_EVENT", LeafKind.SWITCH, "false"),
    ],
)
def test_flag_variable_and_kind_follow_from_the_name(path, flag, variable, kind, default):
    leaf = LEAVES[path]

    assert (leaf.flag, leaf.variable, leaf.kind, show_default(leaf)) == (flag, variable, kind, default)


def test_no_two_settings_share_a_name():
    table = leaves()

    assert len({leaf.path for leaf in table}) == len(table)
    assert len({leaf.flag for leaf in table}) == len(table)
    assert len({leaf.variable for leaf in table}) == len(table)


def test_every_branch_has_settings():
    assert {leaf.branch for leaf in leaves()} == {"", *sections()}


def test_every_default_keeps_its_own_bounds():
    for leaf in leaves():
        if isinstance(leaf.default, int | float) and not isinstance(leaf.default, bool):
            assert (leaf.rules.minimum or 0) <= leaf.default <= (leaf.rules.maximum or leaf.default), (
                leaf.path
            )


def test_loading_nothing_gives_the_defaults():
    settings, sources, notices = load_settings(argparse.Namespace(), {}, str)

    assert settings == Settings()
    assert set(sources.values()) == {"default"}
    assert notices == ()


def test_a_secret_is_never_printed():
    settings = Settings(admin_key=Secret("hunter2"))

    assert "hunter2" not in repr(settings)
    assert "hunter2" not in f"{settings.admin_key}"
    assert show_value(LEAVES["adminKey"], settings.admin_key) == "***"
    assert settings.admin_key.value == "hunter2"


def test_endpoints_are_shown_as_they_are_written():
    specs = (EndpointSpec("http", "a", 1, {"zone": "x"}), EndpointSpec("https", "::1", 2))

    assert show_value(LEAVES["endpoint"], specs) == "http://a:1,zone=x https://[::1]:2"


def test_help_tells_every_flag_with_its_default():
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)
    text = " ".join(parser.format_help().split())

    for leaf in leaves():
        assert leaf.flag in text
    assert "--settings FILE" in text
    assert "--refresh-metrics-interval" in text
    assert "in percent of the requests of the last 10 s. Default: 20." in text
    assert "--log-level {debug,info,warning,error}" in text
