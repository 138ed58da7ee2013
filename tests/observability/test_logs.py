"""The process log: shapes, levels, redaction, and no flood."""

import io
import json
import logging

import pytest

from epp.clock import ManualClock
from epp.observability.logs import RateLimitedLogger, configure_logging, redacted
from epp.observability.timestamps import iso_utc

LOGGERS = ("", "epp", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "asyncio")


@pytest.fixture(autouse=True)
def logging_as_it_was():
    before = {
        n: (logging.getLogger(n).level, logging.getLogger(n).handlers[:], logging.getLogger(n).propagate)
        for n in LOGGERS
    }
    yield
    for name, (level, handlers, propagate) in before.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.propagate = propagate


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_json_line_holds_time_level_logger_message_and_fields(stream):
    configure_logging("info", human=False, stream=stream)

    record = logging.getLogger("epp.scrape").makeRecord(
        "epp.scrape", logging.WARNING, "f", 1, "scrape of %s failed", ("e1",), None,
        extra={"endpoint": "10.0.0.1:8000", "failures": 3, "request_id": "r-1", "ratio": 0.5, "ok": False, "none": None},
    )  # fmt: skip
    record.created = 1_700_001_000.125
    logging.getLogger("epp.scrape").handle(record)

    assert lines(stream) == [
        {
            "ts": "2023-11-14T22:30:00.125Z",
            "level": "warning",
            "logger": "epp.scrape",
            "message": "scrape of e1 failed",
            "endpoint": "10.0.0.1:8000",
            "failures": 3,
            "request_id": "r-1",
            "ratio": 0.5,
            "ok": False,
            "none": None,
        }
    ]


def test_a_human_line(stream):
    configure_logging("info", human=True, stream=stream)

    record = logging.makeLogRecord(
        {
            "name": "epp",
            "levelno": 20,
            "levelname": "INFO",
            "msg": "ready",
            "created": 1_700_001_000.125,
            "port": 8080,
        }
    )
    logging.getLogger("epp").handle(record)

    assert stream.getvalue() == "22:30:00.125 INFO epp ready port=8080\n"


@pytest.mark.parametrize("name", ["epp", "uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"])
@pytest.mark.parametrize(
    "level, seen", [("debug", True), ("info", True), ("warning", False), ("error", False)]
)
def test_the_level_holds_for_the_libraries_too(stream, name, level, seen):
    library = logging.getLogger(name)
    library.handlers[:] = [logging.NullHandler()]
    library.setLevel(logging.CRITICAL if name != "epp" else logging.NOTSET)
    library.propagate = name == "epp"

    configure_logging(level, human=False, stream=stream)
    library.info("hello")

    assert bool(lines(stream)) is seen


def test_configuring_again_replaces_the_handler(stream):
    configure_logging("info", human=False, stream=io.StringIO())
    configure_logging("info", human=False, stream=stream)
    logging.getLogger("epp").info("once")

    assert len(lines(stream)) == 1


def test_the_default_stream_is_standard_error(capsys):
    configure_logging("info", human=False)
    logging.getLogger("epp").info("hello")

    assert json.loads(capsys.readouterr().err)["message"] == "hello"


SECRET = "SENTINEL-9f3"


@pytest.mark.parametrize(
    "text",
    [
        f"authorization: Bearer {SECRET}",
        f"Authorization: Basic {SECRET}==",
        f"{{'authorization': 'Bearer {SECRET}'}}",
        f"(b'authorization', b'Bearer {SECRET}')",
        f"proxy-authorization: {SECRET}",
        f"sent bearer {SECRET} upstream",
        f"x-api-key: {SECRET}",
        f'"api_key": "{SECRET}"',
        f"apikey={SECRET}&x=1",
        f"x-epp-admin-key={SECRET}",
        f"admin_key={SECRET} endpoint-key={SECRET}",
        f"password = {SECRET}",
        f"http://user:{SECRET}@10.0.0.1:8000/metrics",
        f"key sk-{SECRET}-abcdefgh",
    ],
)
def test_credentials_are_cut_from_messages(text):
    cut = redacted(text)

    assert SECRET not in cut
    assert "[redacted]" in cut


@pytest.mark.parametrize(
    "text",
    [
        "endpoint http://10.0.0.1:8000 is ejected",
        "prompt_tokens=5 token ratio 4.2",
        "risk-averse",
        "the bearer",
        "[::1]:8000 answered 200",
        "cannot create subjectaccessreviews.authorization.k8s.io of the cluster: 403 Forbidden",
    ],
)
def test_ordinary_messages_stay_as_they_are(text):
    assert redacted(text) == text


@pytest.mark.parametrize("human", [True, False])
def test_credentials_and_content_never_reach_the_log(stream, human):
    configure_logging("debug", human=human, stream=stream)
    logger = logging.getLogger("epp")

    logger.debug("authorization: Bearer %s", SECRET)
    logger.info(
        "x", extra={"body": SECRET, "prompt": SECRET, "Headers": {"a": SECRET}, "detail": f"api-key={SECRET}"}
    )
    logger.error("failed", exc_info=RuntimeError(f"authorization: Bearer {SECRET}"))

    assert SECRET not in stream.getvalue()
    assert "RuntimeError" in stream.getvalue()


def test_an_exception_is_one_field(stream):
    configure_logging("info", human=False, stream=stream)
    try:
        int("oh")
    except ValueError:
        logging.getLogger("epp").exception("failed")

    (line,) = lines(stream)
    assert line["trace"].startswith("Traceback")
    assert line["trace"].endswith("ValueError: invalid literal for int() with base 10: 'oh'")


def test_exc_info_without_an_exception_has_no_trace(stream):
    configure_logging("info", human=False, stream=stream)
    logging.getLogger("epp").info("fine", exc_info=(None, None, None))

    assert "trace" not in lines(stream)[0]


@pytest.mark.parametrize("human", [True, False])
def test_half_characters_do_not_break_a_line(stream, human):
    configure_logging("info", human=human, stream=stream)
    logging.getLogger("epp").info("a\ud800b", extra={"model": "\udfff"})

    assert "a?b" in stream.getvalue()


def limited(clock: ManualClock, **options) -> RateLimitedLogger:
    return RateLimitedLogger(logging.getLogger("epp"), clock.monotonic, **options)


def test_an_event_is_logged_at_most_once_in_thirty_seconds_for_each_key(stream):
    configure_logging("info", human=False, stream=stream)
    clock = ManualClock()
    limiter = limited(clock)

    for _ in range(100):
        limiter.warning("scrape e1", "scrape failed", endpoint="e1")
        clock.advance(0.5)
    limiter.warning("scrape e2", "scrape failed", endpoint="e2")

    told = [(line["endpoint"], line.get("suppressed")) for line in lines(stream)]
    assert told == [("e1", None), ("e1", 59), ("e2", None)]
    assert {line["level"] for line in lines(stream)} == {"warning"}


def test_whether_it_was_logged_is_told(stream):
    configure_logging("info", human=False, stream=stream)
    clock = ManualClock()
    limiter = limited(clock, interval_s=10.0)

    first = limiter.log(logging.INFO, "k", "m")
    second = limiter.log(logging.INFO, "k", "m")
    clock.advance(10.0)
    third = limiter.log(logging.INFO, "k", "m")

    assert (first, second, third) == (True, False, True)


def test_of_too_many_keys_the_oldest_is_forgotten(stream):
    configure_logging("info", human=False, stream=stream)
    limiter = limited(ManualClock(), max_keys=2)

    logged = [limiter.warning(key, "m") for key in ("a", "b", "c", "b", "a")]

    assert logged == [True, True, True, False, True]


def test_times_are_utc_to_the_millisecond():
    assert iso_utc(1_700_001_000.0) == "2023-11-14T22:30:00.000Z"
    assert iso_utc(1_700_001_000.9999) == "2023-11-14T22:30:00.999Z"
