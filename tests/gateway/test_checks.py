"""What Envoy asks, what it is told, and what its log says of the end."""

import asyncio
import json

import pytest

from epp.director import EndReason
from epp.gateway.standalone.check_protocol import CheckProtocol
from epp.gateway.standalone.checks import Checks, CheckSurroundings
from epp.gateway.standalone.lines import AccessLine, LineReader
from epp.http.headers import Credentials
from epp.security import KeyGate, KeyRing, parse_keys
from tests.director.core import TIERED, Pool

PATH = b"/v1/completions"
UNCAPPED = TIERED.replace("blockSize: 64", "blockSize: 64, maxPrefixTokensToMatch: 0")
LONG = json.dumps({"model": "m", "prompt": "x" * 3_000_000}).encode()
BODY = json.dumps({"model": "m", "prompt": "Hello there. " * 50}).encode()


class Stage:
    """A pool behind checks; `now` is the time."""

    def __init__(self, n=2, config=TIERED, **options):
        self.pool = Pool(n=n, config=config)
        self.now = 1.0
        settings = {"closed": lambda _path: "", **options}
        around = CheckSurroundings(self.pool.director, lambda: self.now, lambda: b"made-up", **settings)
        self.checks = Checks(around)

    def ask(self, body=BODY, *, method=b"POST", target=PATH, headers=()):
        steps = self.checks.check(method, target, list(headers), body)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return done.value

    def ends(self, answer, **line):
        self.now = 5.0
        self.checks.ended(AccessLine(exchange=str(answer.number), **line))

    @property
    def record(self):
        [record] = self.pool.records
        return record


def test_a_request_that_may_go_on_is_told_where_and_under_which_number():
    stage = Stage(n=3, least=2)

    answer = stage.ask()

    headers = dict(answer.headers)
    first, second = headers[b"x-gateway-destination-endpoint"].split(b",")
    assert answer.status == 200
    assert first != second
    assert headers[b"x-epp-exchange"] == b"1"
    assert headers[b"x-request-id"] == b"made-up"
    assert b"x-envoy-auth-headers-to-remove" not in headers
    assert stage.pool.ledger.total() == len(stage.checks) == 1


def test_no_more_endpoints_are_told_than_there_are():
    answer = Stage(n=1, least=3).ask()

    assert dict(answer.headers)[b"x-gateway-destination-endpoint"] == b"10.0.0.1:8000"


def test_headers_that_no_client_may_set_are_removed():
    answer = Stage(credentials=Credentials(frozenset({b"authorization"}))).ask(
        headers=[
            (b"x-epp-exchange", b"7"),
            (b"x-gateway-destination-endpoint", b"6.6.6.6:1"),
            (b"authorization", b"Bearer mine"),
            (b"x-request-id", b"req-1"),
        ]
    )

    headers = dict(answer.headers)
    assert headers[b"x-envoy-auth-headers-to-remove"] == (
        b"authorization,x-epp-exchange,x-gateway-destination-endpoint"
    )
    assert headers[b"x-request-id"] == b"req-1"
    assert headers[b"x-epp-exchange"] == b"1"


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
    first = dict(answer.headers)[b"x-gateway-destination-endpoint"].decode()
    other = "10.0.0.2:8000" if first == "10.0.0.1:8000" else "10.0.0.1:8000"

    stage.ends(answer, status=200, served=other)

    slots = {a: e.slot for a, e in stage.pool.core.table.pool.by_address.items()}
    assert stage.record.endpoint == other
    assert stage.pool.index.blocks(0, slots[other]) > 0
    assert stage.pool.index.blocks(0, slots[first]) == 0


def test_endpoints_that_were_not_reached_hold_nothing():
    stage = Stage(n=1)

    stage.ends(stage.ask(), status=503, flags="UF,URX")

    assert stage.record.reason is EndReason.UPSTREAM_ABORTED
    assert stage.pool.index.blocks(0, 0) == 0


def test_a_request_without_an_answer_has_no_status():
    stage = Stage(n=1)

    stage.ends(stage.ask(), status=0, flags="DC")

    assert (stage.record.status, stage.record.reason) == (None, EndReason.CLIENT_DISCONNECTED)


@pytest.mark.parametrize("exchange", [None, "", "99", "x", "٣"])
def test_lines_of_other_requests_are_passed_over(exchange):
    stage = Stage(n=1)
    stage.ask()

    stage.checks.ended(AccessLine(exchange=exchange))

    assert len(stage.checks) == 1


def test_an_answer_that_envoy_may_not_have_read_is_left_to_estimation():
    stage = Stage(n=1)
    answer = stage.ask()

    stage.checks.lost(answer.number)
    stage.checks.lost(answer.number)
    stage.ends(answer, status=200)

    assert stage.record.reason is EndReason.UNOBSERVED
    assert len(stage.pool.director.unobserved) == 1


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
    assert (b"x-request-id", b"made-up") in answer.headers
    assert stage.record.reason is EndReason.REJECTED
    assert len(stage.checks) == 0


def test_a_key_lets_in():
    stage = Stage(n=1, gate=KeyGate(KeyRing(parse_keys("alice=secret"))))

    answer = stage.ask(headers=[(b"authorization", b"Bearer secret")])
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
    steps = stage.checks.check(b"POST", PATH, [], LONG)
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
        ("7", 200, "10.0.0.1:8000", 3)
    ]


def test_lines_that_are_none_are_passed_over_and_counted():
    reader = LineReader()

    lines = reader.feed(b"[2026] warning\n" + LINE + b"\n")

    assert (len(lines), reader.unread) == (1, 2)


def test_a_line_without_end_is_not_kept_for_ever():
    reader = LineReader()

    reader.feed(b"x" * 70_000)

    assert [line.exchange for line in reader.feed(b"\n" + LINE)] == ["7"]


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
    protocol, wire = CheckProtocol(stage.checks), Wire()
    protocol.connection_made(wire)
    return protocol, wire


QUESTION = (
    b"POST %b HTTP/1.1\r\nHost: epp\r\nX-Request-Id: req-1\r\ncontent-length: %d\r\n\r\n"
    % (
        PATH,
        len(BODY),
    )
    + BODY
)


@pytest.mark.parametrize("cut", range(0, len(QUESTION), 7))
async def test_a_question_may_be_cut_anywhere(cut):
    stage = Stage(n=1)
    protocol, wire = connected(stage)

    protocol.data_received(QUESTION[:cut])
    protocol.data_received(QUESTION[cut:])

    head, _, body = wire.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n")
    assert b"x-gateway-destination-endpoint: 10.0.0.1:8000" in head
    assert b"x-request-id: req-1" in head
    assert body == b""


async def test_a_connection_is_used_again_and_again():
    stage = Stage(n=1)
    protocol, wire = connected(stage)

    protocol.data_received(QUESTION)
    protocol.data_received(b"GET /v1/models HTTP/1.1\r\nhost: epp\r\ncontent-length: 0\r\n\r\n")

    assert wire.written.count(b"HTTP/1.1 200 X") == 2
    assert len(stage.checks) == 2


async def test_a_refusal_has_its_body():
    stage = Stage(n=0)
    protocol, wire = connected(stage)

    protocol.data_received(QUESTION)

    head, _, body = wire.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 493 X\r\ncontent-length: %d\r\n" % len(body))
    assert json.loads(body)["error"]["code"] == "no_endpoints"


async def test_what_is_no_question_ends_the_connection():
    protocol, wire = connected(Stage(n=1))

    protocol.data_received(b"\x00\x01\x02\r\n\r\n")

    assert wire.aborted


async def test_long_prompts_leave_others_a_turn_and_may_be_given_up():
    stage = Stage(n=1, config=UNCAPPED)
    protocol, wire = connected(stage)

    protocol.data_received(b"POST %b HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (PATH, len(LONG)) + LONG)
    before = wire.written
    protocol.connection_lost(None)
    await asyncio.sleep(0)

    assert before == wire.written == b""
    assert stage.record.reason is EndReason.CLIENT_DISCONNECTED


async def test_a_long_prompt_is_answered_after_some_turns():
    stage = Stage(n=1, config=UNCAPPED)
    protocol, wire = connected(stage)

    protocol.data_received(b"POST %b HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (PATH, len(LONG)) + LONG)
    for _ in range(50):
        await asyncio.sleep(0)

    assert wire.written.startswith(b"HTTP/1.1 200 X")


async def test_a_connection_that_ends_after_its_answer_is_noticed():
    stage = Stage(n=1)
    protocol, _ = connected(stage)
    protocol.data_received(QUESTION)

    protocol.connection_lost(None)

    assert stage.record.reason is EndReason.UNOBSERVED


async def test_a_connection_that_ends_unused_is_nothing():
    stage = Stage(n=1)
    protocol, _ = connected(stage)

    protocol.connection_lost(None)
    protocol.data_received(b"\x00\r\n\r\n")

    assert stage.pool.records == []
