"""Every setting reaches what it is for."""

import pytest

from epp.app.options import (
    core_options,
    log_dropped_headers,
    log_shadow_failures,
    metric_names,
    proxy_settings,
    staleness_s,
    upstream_settings,
)
from epp.clock import ManualClock
from epp.config.settings import (
    ClientSettings,
    HealthSettings,
    MetricsSettings,
    ReceiptSettings,
    RetrySettings,
    Settings,
    StreamSettings,
    UpstreamSettings,
)
from epp.director.director import Limits
from epp.director.retry import RetryPolicy
from epp.endpoints.health import HealthPolicy
from epp.errors import ConfigError
from epp.http import UpstreamSettings as Upstream
from epp.scrape.engines import Selector
from epp.scrape.page import CoreNames


@pytest.mark.parametrize(
    ("interval_s", "threshold_s", "stale_s"),
    [
        (None, None, 2.0),
        (0.2, None, 2.0),
        (1.0, None, 3.0),
        (None, 5.0, 5.0),
        (1.0, 4.0, 4.0),
        (None, 0.5, 0.5),
    ],
)
def test_metrics_are_stale_after_what_is_set_and_never_before_three_intervals(
    interval_s, threshold_s, stale_s
):
    settings = Settings(
        metrics=MetricsSettings(refresh_interval_s=interval_s, staleness_threshold_s=threshold_s)
    )

    assert staleness_s(settings) == stale_s
    assert core_options(settings).staleness_s() == stale_s


def test_the_core_gets_its_options():
    options = core_options(
        Settings(
            seed=7,
            retry=RetrySettings(max_executions=5, budget_percent=30, budget_minimum=2),
            max_inflated_bytes=11,
            max_inflight_per_endpoint=12,
            health=HealthSettings(eject_after=4, ejection_time_s=6.0, max_ejection_time_s=66.0),
            slow_start_s=13.0,
        )
    )

    assert options.seed == 7
    assert options.retry == RetryPolicy(max_executions=5, budget_share=0.3, budget_minimum=2)
    assert options.limits == Limits(inflated_bytes=11, inflight_per_endpoint=12)
    assert options.health == HealthPolicy(consecutive_failures=4, backoff_s=6.0, max_backoff_s=66.0)
    assert options.slow_start_s == 13.0


def test_connections_to_endpoints_get_their_limits():
    settings = Settings(
        upstream=UpstreamSettings(
            connect_timeout_s=1.0,
            first_byte_timeout_s=2.0,
            idle_timeout_s=3.0,
            total_timeout_s=4.0,
            keep_alive_s=5.0,
            max_connections_per_endpoint=6,
        )
    )

    assert upstream_settings(settings) == Upstream(
        connect_timeout_s=1.0,
        first_byte_timeout_s=2.0,
        idle_timeout_s=3.0,
        total_timeout_s=4.0,
        keep_alive_s=5.0,
        max_connections_per_origin=6,
    )


def test_the_front_door_gets_its_limits():
    settings = proxy_settings(
        Settings(
            client=ClientSettings(
                head_timeout_s=1.0, body_timeout_s=2.0, keep_alive_s=3.0, max_head_bytes=4000, max_headers=5
            ),
            upstream=UpstreamSettings(total_timeout_s=6.0),
            max_request_bytes=7,
            max_buffered_bytes=8,
            max_requests=9,
            drain_timeout_s=10.0,
            receipts=ReceiptSettings(expose_endpoint=False),
            stream=StreamSettings(error_event=True),
        )
    )

    assert (settings.head_timeout_s, settings.body_timeout_s, settings.keep_alive_s) == (1.0, 2.0, 3.0)
    assert (settings.max_head_bytes, settings.max_headers, settings.total_timeout_s) == (4000, 5, 6.0)
    assert (settings.max_request_bytes, settings.max_buffered_bytes, settings.max_requests) == (7, 8, 9)
    assert settings.drain_timeout_s == 10.0
    assert (settings.expose_endpoint, settings.stream_error_event) == (False, True)


def test_failures_of_the_shadow_are_logged_not_more_often_than_each_half_minute(caplog):
    clock = ManualClock()
    failed = log_shadow_failures(clock)
    for _ in range(3):
        failed(ValueError("oops"))
    clock.advance(31.0)
    failed(ValueError("oops"))

    assert [r.message for r in caplog.records] == ["the shadow configuration failed: ValueError('oops')"] * 2
    assert caplog.records[1].suppressed == 2


def test_names_of_gauges_are_read_as_the_go_pickers_flags_write_them():
    settings = Settings(
        metrics=MetricsSettings(waiting_name="my:q{a=b}", running_name="my:r", kv_usage_name=None)
    )

    assert metric_names(settings) == CoreNames(
        waiting=Selector("my:q", (("a", "b"),)), running=Selector("my:r"), kv_usage=None
    )


def test_names_that_are_none_are_all_told():
    settings = Settings(metrics=MetricsSettings(waiting_name="1 2", kv_usage_name="a{b}"))

    with pytest.raises(ConfigError) as refused:
        metric_names(settings)

    assert [p.path for p in refused.value.problems] == ["metrics.waitingName", "metrics.kvUsageName"]


def test_headers_of_plugins_that_were_dropped_are_logged_by_name_not_more_often_than_each_half_minute(caplog):
    clock = ManualClock()
    dropped = log_dropped_headers(clock)
    for name in ("Bad Name:", "Bad Name:", "x:y"):
        dropped(name)

    assert [r.message for r in caplog.records] == [
        "a plugin added the header 'Bad Name:' to an answer; it was not sent",
        "a plugin added the header 'x:y' to an answer; it was not sent",
    ]
