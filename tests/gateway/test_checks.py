"""What Envoy asks, what it is told, and what its log says of the end."""

import asyncio
import json

import pytest

from epp.compose import CoreOptions
from epp.director import EndReason
from epp.director.director import Limits
from epp.gateway.standalone.check_protocol import CheckProtocol
from epp.gateway.standalone.checks import Checks, CheckSurroundings
from epp.gateway.standalone.lines import AccessLine, LineReader
from epp.gateway.standalone.questions import Question, QuestionReader
from epp.http.headers import Credentials
from epp.security import KeyGate, KeyRing, parse_keys
from tests.director.core import TIERED, Pool

PATH = "/v1/completions"
UNCAPPED = TIERED.replace("blockSize: 64", "blockSize: 64, maxPrefixTokensToMatch: 0")
LONG = json.dumps({"model": "m", "prompt": "x" * 3_000_000}).encode()
BODY = json.dumps({"model": "m", "prompt": "Hello there. " * 50}).encode()


class Told:
    """An answer, taken apart."""

    def __init__(self, message, number):
        head, _, self.body = message.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        self.status = int(first.split(b" ")[1])
        self.headers = dict(line.split(b": ", 1) for line in lines)
        self.number = number


class Stage:
    """A pool behind checks; `now` is the time."""

    def __init__(self, n=2, config=TIERED, most=0, **options):
        core = CoreOptions(seed=7, timer=lambda: 0.0, limits=Limits(inflight_per_endpoint=most))
        self.pool = Pool(n, config, core)
        self.now = 1.0
        settings = {"closed": lambda _path: "", **options}
        around = CheckSurroundings(self.pool.director, lambda: self.now, lambda: b"made-up", **settings)
        self.checks = Checks(around)

    def ask(self, body=BODY, *, method="POST", target=PATH, headers=None):
        steps = self.checks.check(Question(method, target, headers or {}, body))
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return Told(*done.value)

    def logs(self, **line):
        self.checks.ended([AccessLine(**line)])

    def ends(self, answer, **line):
        self.now = 5.0
        self.logs(exchange=answer.number, **line)

    @property
    def record(self):
        [record] = self.pool.records
        return record


def test_a_request_that_may_go_on_is_told_where_and_under_which_number():
    stage = Stage(n=3, least=2)

    answer = stage.ask()

    headers = answer.headers
    first, second = headers[b"x-gateway-destination-endpoint"].split(b",")
    assert answer.status == 200
    assert first != second
    assert headers[b"x-epp-exchange"] == b"1"
    assert headers[b"x-request-id"] == b"made-up"
    assert b"x-envoy-auth-headers-to-remove" not in headers
    assert stage.pool.ledger.total() == len(stage.checks) == 1


def test_no_more_endpoints_are_told_than_there_are():
    answer = Stage(n=1, least=3).ask()

    assert answer.headers[b"x-gateway-destination-endpoint"] == b"10.0.0.1:8000"


def test_headers_that_no_client_may_set_are_removed():
    answer = Stage(credentials=Credentials(frozenset({b"authorization"}))).ask(
        headers={
            "x-epp-exchange": "7",
            "authorization": "Bearer mine",
            "x-request-id": "req-1",
            "x-gateway-destination-endpoint": "6.6.6.6:1",
        }
    )

    headers = answer.headers
    assert headers[b"x-envoy-auth-headers-to-remove"] == (
        b"x-epp-exchange,x-gateway-destination-endpoint,authorization"
    )
    assert b"x-request-id" not in headers
    assert headers[b"x-epp-exchange"] == b"1"


def test_endpoints_get_our_key_which_envoy_does_not_remove_again():
    answer = Stage(credentials=Credentials(frozenset({b"authorization", b"x-api-key"}), b"Bearer ours")).ask(
        headers={"authorization": "Bearer mine", "x-api-key": "mine"}
    )

    assert answer.headers[b"authorization"] == b"Bearer ours"
    assert answer.headers[b"x-envoy-auth-headers-to-remove"] == b"x-api-key"


@pytest.mark.parametrize("given", ["two words", "é", ""])
def test_a_request_id_that_is_none_is_replaced(given):
    answer = Stage().ask(headers={"x-request-id": given})

    assert answer.headers[b"x-request-id"] == b"made-up"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ("-", EndReason.COMPLETE),
        ("DC", EndReason.CLIENT_DISCONNECTED),
        ("UC", EndReason.UPSTREAM_ABORTED),
        ("UT", EndReason.TIMEOUT),
        (None, EndReason.COMPLETE),
    ],
)
def test_the_log_ends_a_request(flags, reason):
    stage = Stage(n=1)
    answer = stage.ask()

    stage.ends(answer, status=200, flags=flags, served="10.0.0.1:8000", first_ms=250.0, bytes=10)

    assert (stage.record.reason, stage.record.status) == (reason, 200)
    assert (stage.record.first_byte_at, stage.record.ended_at) == (1.25, 5.0)
    assert stage.record.response_bytes == 10
    assert stage.pool.ledger.total() == len(stage.checks) == 0


def test_the_log_tells_usage():
    stage = Stage(n=1)

    stage.ends(stage.ask(), status=200, prompt=150.0, completion=2.0, cached=64.0)

    usage = stage.record.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (150, 2, 64)


def test_counts_that_cannot_be_are_none():
    stage = Stage(n=1)

    stage.ends(stage.ask(), status=200, prompt=-1.0)

    assert stage.record.usage is None


def test_who_served_gets_the_claim():
    stage = Stage(n=2)
    answer = stage.ask()
    first = answer.headers[b"x-gateway-destination-endpoint"].decode()
    other = "10.0.0.2:8000" if first == "10.0.0.1:8000" else "10.0.0.1:8000"

    stage.ends(answer, status=200, served=other)

    slots = {a: e.slot for a, e in stage.pool.core.table.pool.by_address.items()}
    assert stage.record.endpoint == other
    assert stage.pool.index.blocks(0, slots[other]) > 0
    assert stage.pool.index.blocks(0, slots[first]) == 0


@pytest.mark.parametrize(
    ("flags", "reason", "status", "code"),
    [
        ("UF,URX", EndReason.UPSTREAM_ABORTED, 502, "upstream_connect_failed"),
        ("UC", EndReason.UPSTREAM_ABORTED, 502, "upstream_protocol_error"),
        ("SI", EndReason.TIMEOUT, 504, "upstream_timeout"),
    ],
)
def test_what_no_endpoint_answered_is_the_error_that_clients_get(flags, reason, status, code):
    stage = Stage(n=1)

    stage.ends(stage.ask(), status=status, flags=flags)

    assert (stage.record.reason, stage.record.status, stage.record.error) == (reason, status, code)
    assert stage.pool.index.blocks(0, 0) == 0


def test_a_503_that_was_passed_on_is_the_endpoints():
    stage = Stage(n=1)

    stage.ends(stage.ask(), status=503, flags="URX", served="10.0.0.1:8000", first_ms=3.0, attempts=3)

    assert (stage.record.reason, stage.record.status, stage.record.error) == (EndReason.COMPLETE, 503, None)


def test_a_request_without_an_answer_has_no_status():
    stage = Stage(n=1)

    stage.ends(stage.ask(), status=0, flags="DC")

    assert (stage.record.status, stage.record.reason) == (None, EndReason.CLIENT_DISCONNECTED)


@pytest.mark.parametrize("exchange", [None, 99])
def test_lines_of_other_requests_are_passed_over(exchange):
    stage = Stage(n=1)
    stage.ask()

    stage.logs(exchange=exchange)

    assert len(stage.checks) == 1


def test_an_answer_that_envoy_did_not_read_lets_nothing_go():
    stage = Stage(n=1)
    answer = stage.ask()

    stage.checks.unread(answer.number)
    stage.checks.unread(answer.number)
    stage.ends(answer, status=200)

    assert stage.record.reason is EndReason.CLIENT_DISCONNECTED
    assert stage.pool.ledger.total() == len(stage.checks) == 0
    assert stage.pool.index.blocks(0, 0) == 0


def test_requests_that_envoy_did_not_wait_for_are_told_now_and_then(caplog):
    stage = Stage(n=1)

    stage.logs(served="10.0.0.1:8000")
    stage.now = 5.0
    stage.logs(served="10.0.0.1:8000")
    stage.now = 11.0
    stage.logs(served="/tmp/control.sock")

    assert [record.getMessage() for record in caplog.records] == [
        "requests were sent on without a decision, which Envoy did not wait for: 1"
    ] * 2


# What may be repeated.

REPEATS = b"x-envoy-retry-on"


@pytest.mark.parametrize(
    ("asked", "repeats"),
    [
        ({}, b"reset,retriable-status-codes"),
        ({"method": "GET", "target": "/v1/files", "body": b""}, b"reset,retriable-status-codes"),
        ({"target": "/v1/files"}, None),
    ],
)
def test_what_may_be_sent_twice_is_repeated_after_a_broken_connection_or_503(asked, repeats):
    assert Stage(n=2).ask(**asked).headers.get(REPEATS) == repeats


def test_repeats_after_a_503_come_out_of_the_budget():
    stage = Stage(n=2)

    before = [stage.ask() for _ in range(2)]
    stage.ends(before[0], status=200, attempts=3)
    stage.ends(before[1], status=200, attempts=2)
    without = stage.ask()
    stage.now = 16.0
    later = stage.ask()

    assert [record.attempts for record in stage.pool.records] == [3, 2]
    assert without.headers[REPEATS] == b"reset"
    assert later.headers[REPEATS] == b"reset,retriable-status-codes"


def test_as_many_as_may_be_in_flight_are_let_go_until_the_log_ends_one():
    stage = Stage(n=1, most=1)

    answers = [stage.ask() for _ in range(3)]
    stage.logs(status=200)
    stage.logs(exchange=2, status=200)
    refused = stage.ask()
    stage.ends(answers[0], status=200)

    assert [answer.status for answer in answers] == [200, 429, 429]
    assert json.loads(answers[1].body)["error"]["code"] == "saturated"
    assert answers[1].headers[b"retry-after"] == b"1"
    assert refused.status == 429
    assert stage.ask().status == 200


def test_more_requests_than_may_be_open_are_refused():
    stage = Stage(n=1, max_requests=2)

    answers = [stage.ask() for _ in range(3)]

    assert [answer.status for answer in answers] == [200, 200, 493]
    assert json.loads(answers[2].body)["error"]["code"] == "router_overloaded"


def test_connections_that_we_break_are_a_shutdown():
    stage = Stage(n=1)
    answer = stage.ask()

    stage.checks.cut()
    stage.ends(answer, status=200, flags="DC", first_ms=3.0)

    assert stage.record.reason is EndReason.SHUTDOWN


def test_what_is_open_at_the_end_is_a_shutdown():
    stage = Stage(n=1)
    stage.ask()

    stage.checks.shut_down()

    assert stage.record.reason is EndReason.SHUTDOWN
    assert stage.pool.ledger.total() == 0


@pytest.mark.parametrize(
    ("options", "body", "status"),
    [
        ({}, b"{", 400),
        ({"n": 0}, BODY, 493),
        ({"closed": lambda _path: "closed"}, BODY, 403),
        ({"gate": KeyGate(KeyRing(parse_keys("secret")))}, BODY, 401),
    ],
)
def test_refusals_are_the_clients_answers(options, body, status):
    stage = Stage(**options)

    answer = stage.ask(body)

    assert (answer.status, answer.number) == (status, None)
    assert "message" in json.loads(answer.body)["error"]
    assert answer.headers[b"x-request-id"] == b"made-up"
    assert stage.record.reason is EndReason.REJECTED
    assert len(stage.checks) == 0


def test_the_model_that_a_form_names_is_known():
    form = b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n--b\r\n'
    kind = {"content-type": "multipart/form-data; boundary=b"}
    stage = Stage(n=1)

    stage.ends(stage.ask(form, target="/v1/audio/transcriptions", headers=kind), status=200)

    assert (stage.record.model, stage.record.request_bytes) == ("m", len(form))


def test_a_key_lets_in():
    stage = Stage(n=1, gate=KeyGate(KeyRing(parse_keys("alice=secret"))))

    answer = stage.ask(headers={"authorization": "Bearer secret"})
    stage.ends(answer, status=200)

    assert stage.record.key_name == "alice"


def test_an_error_of_ours_is_500(monkeypatch, caplog):
    stage = Stage(n=1)
    monkeypatch.setattr(stage.pool.director, "pick", lambda *_: 1 / 0)

    answer = stage.ask()

    assert answer.status == 490
    assert "ZeroDivisionError" in caplog.text


def test_a_check_that_is_given_up_takes_everything_back():
    stage = Stage(n=1, config=UNCAPPED)
    steps = stage.checks.check(Question("POST", PATH, {}, LONG))
    stepped = next(steps, "done")

    steps.close()

    assert stepped is None
    assert stage.record.reason is EndReason.CLIENT_DISCONNECTED
    assert stage.pool.ledger.total() == 0


# The log.


LINE = b'{"exchange":"7","status":200,"flags":"-","served":"10.0.0.1:8000","first_ms":3,"bytes":5,"prompt":null}\n'


@pytest.mark.parametrize("cut", range(len(LINE) + 1))
def test_lines_may_be_cut_anywhere(cut):
    reader = LineReader()

    lines = reader.feed(LINE[:cut]) + reader.feed(LINE[cut:])

    assert [(line.exchange, line.status, line.served, line.first_ms) for line in lines] == [
        (7, 200, "10.0.0.1:8000", 3)
    ]


def test_lines_that_are_none_are_passed_over_and_counted():
    reader = LineReader()

    lines = reader.feed(b"[2026] warning\n" + LINE + b"\n")

    assert (len(lines), reader.unread) == (1, 2)


def test_a_line_without_end_is_not_kept_for_ever():
    reader = LineReader()

    reader.feed(b"x" * 70_000)

    assert [line.exchange for line in reader.feed(b"\n" + LINE)] == [7]


# The socket.


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data):
        self.written += data

    def abort(self):
        self.aborted = True


def connected(stage):
    protocol, wire = CheckProtocol(stage.checks, patience_s=0.0), Wire()
    protocol.connection_made(wire)
    return protocol, wire


QUESTION = (
    b"POST /v1/completions HTTP/1.1\r\nhost: epp\r\nx-request-id: req-1\r\ncontent-length: %d\r\n\r\n%b"
    % (len(BODY), BODY)
)
LONG_QUESTION = b"POST /v1/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(LONG), LONG)


@pytest.mark.parametrize("cut", range(len(QUESTION)))
def test_questions_may_be_cut_anywhere(cut):
    reader = QuestionReader()

    questions = [reader.feed(QUESTION[:cut]), reader.feed(QUESTION[cut:]), reader.feed(QUESTION)]

    headers = {"host": "epp", "x-request-id": "req-1", "content-length": str(len(BODY))}
    assert questions == [None] + [("POST", "/v1/completions", headers, BODY)] * 2


def test_a_question_may_come_byte_by_byte():
    reader = QuestionReader()

    questions = [reader.feed(QUESTION[n : n + 1]) for n in range(len(QUESTION))]

    assert [question.body for question in questions if question] == [BODY]


def test_repeated_headers_are_joined():
    question = QuestionReader().feed(b"GET / HTTP/1.1\r\na: 1\r\nb: \r\na: 2\r\n\r\n")

    assert question == ("GET", "/", {"a": "1, 2", "b": ""}, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\r\n\r\n",
        b"GET /\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
        QUESTION + b"G",
    ],
)
def test_what_envoy_does_not_write_is_no_question(data):
    with pytest.raises(ValueError, match=r"\w"):
        QuestionReader().feed(data)


@pytest.mark.parametrize("cut", range(0, len(QUESTION), 7))
async def test_a_question_in_two_pieces_gets_one_answer(cut):
    stage = Stage(n=1)
    protocol, wire = connected(stage)

    protocol.data_received(QUESTION[:cut])
    protocol.data_received(QUESTION[cut:])

    head, _, body = wire.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n")
    assert b"x-gateway-destination-endpoint: 10.0.0.1:8000" in head
    assert body == b""


async def test_a_connection_is_used_again_and_again():
    stage = Stage(n=1)
    protocol, wire = connected(stage)

    protocol.data_received(QUESTION)
    protocol.data_received(b"GET /v1/models HTTP/1.1\r\nhost: epp\r\ncontent-length: 0\r\n\r\n")

    assert wire.written.count(b"HTTP/1.1 200 OK") == 2
    assert len(stage.checks) == 2


async def test_a_refusal_has_its_body():
    stage = Stage(n=0)
    protocol, wire = connected(stage)

    protocol.data_received(QUESTION)

    head, _, body = wire.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 493 ")
    assert b"content-length: %d" % len(body) in head.split(b"\r\n")
    assert json.loads(body)["error"]["code"] == "no_endpoints"


async def test_what_is_no_question_ends_the_connection():
    protocol, wire = connected(Stage(n=1))

    protocol.data_received(b"\x00\x01\x02\r\n\r\n")

    assert wire.aborted


async def test_long_prompts_leave_others_a_turn_and_may_be_given_up():
    stage = Stage(n=1, config=UNCAPPED)
    protocol, wire = connected(stage)

    protocol.data_received(LONG_QUESTION)
    before = wire.written
    protocol.connection_lost(None)
    await asyncio.sleep(0)

    assert before == wire.written == b""
    assert stage.record.reason is EndReason.CLIENT_DISCONNECTED


async def test_a_long_prompt_is_answered_after_some_turns():
    stage = Stage(n=1, config=UNCAPPED)
    protocol, wire = connected(stage)

    protocol.data_received(LONG_QUESTION)
    for _ in range(50):
        await asyncio.sleep(0)

    assert wire.written.startswith(b"HTTP/1.1 200 OK")


async def test_a_connection_that_ends_after_its_answer_is_noticed():
    stage = Stage(n=1)
    protocol, _ = connected(stage)
    protocol.data_received(QUESTION)

    protocol.connection_lost(None)
    at_once = len(stage.checks)
    for _ in range(3):
        await asyncio.sleep(0)

    assert at_once == 1
    assert stage.record.reason is EndReason.CLIENT_DISCONNECTED
    assert stage.pool.ledger.total() == 0


async def test_a_connection_that_ends_unused_is_nothing():
    stage = Stage(n=1)
    protocol, _ = connected(stage)

    protocol.connection_lost(None)
    protocol.data_received(b"\x00\r\n\r\n")

    assert stage.pool.records == []
