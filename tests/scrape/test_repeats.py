"""Failures that repeat are logged now and then."""

from epp.scrape.repeats import RepeatLog


def repeat_log():
    lines = []
    return RepeatLog(lines.append, "scraping E1"), lines


def test_first_failure_is_logged_and_then_one_each_30_seconds():
    repeats, lines = repeat_log()
    for tenth in range(601):
        repeats.failed("connect: refused", 1000 + tenth / 10)

    assert lines == [
        "scraping E1 failed: connect: refused",
        "scraping E1 failed: connect: refused (301 failures in a row)",
        "scraping E1 failed: connect: refused (601 failures in a row)",
    ]


def test_recovery_is_logged_once_after_a_logged_failure():
    repeats, lines = repeat_log()
    repeats.worked()
    repeats.failed("timeout", 1000)
    repeats.failed("timeout", 1001)
    repeats.worked()
    repeats.worked()

    assert lines == ["scraping E1 failed: timeout", "scraping E1 works again, failures before: 2"]


def test_flapping_endpoint_is_logged_at_most_twice_in_30_seconds():
    repeats, lines = repeat_log()
    for second in range(30):
        repeats.failed("timeout", 1000 + second)
        repeats.worked()

    assert len(lines) == 2
