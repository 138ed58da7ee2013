"""The model servers and the load generator, built and run against each other on real sockets."""

import contextlib
import http.client
import json
import shutil
import socket
import socketserver
import subprocess
import threading

import pytest

from bench.suite.bodies import Body, bodies_file
from bench.suite.processes import free_ports
from bench.suite.tools import ToolError, build

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
]
STREAM = Body(600, stream=True, groups=2)


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    return build(tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    path = tmp_path_factory.mktemp("bodies") / "bodies.jsonl"
    path.write_bytes(bodies_file(STREAM))
    return path


@pytest.fixture(scope="module")
def servers(tools, tmp_path_factory):
    """Two model servers; the ports."""
    page = tmp_path_factory.mktemp("page") / "metrics.txt"
    page.write_bytes(b"vllm:num_requests_waiting 3\n")
    ports = free_ports(2, start=23_000)
    command = [str(tools["mock"]), "--port", str(ports[0]), "--endpoints", "2", "--metrics", str(page)]
    running = subprocess.Popen(command)
    try:
        while not reachable(ports[0]):
            assert running.poll() is None
        yield ports
    finally:
        running.kill()
        running.wait()


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection):
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def control(port: int, chunks: int, interval_us: int = 1000) -> None:
    assert ask(port, "GET", f"/control?chunks={chunks}&interval_us={interval_us}")[0] == 200


def load(tools, port: int, bodies, *options: str) -> dict:
    command = [str(tools["load"]), "--port", str(port), "--bodies", str(bodies), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_so_many_requests_as_asked_are_answered(tools, servers, bodies):
    control(servers[0], 0)
    seen = load(tools, servers[0], bodies, "--connections", "3", "--requests", "50")
    assert (seen["requests"], seen["errors"], seen["latency_us"]["count"]) == (50, 0, 50)


def test_every_chunk_of_a_stream_is_counted_and_its_delay_taken(tools, servers, bodies):
    control(servers[1], 7)
    seen = load(tools, servers[1], bodies, "--connections", "5", "--requests", "5", "--chunks", "7")
    assert (seen["requests"], seen["errors"], seen["chunks"]) == (5, 0, 35)
    assert (seen["ttft_us"]["count"], seen["chunk_delay_us"]["count"]) == (5, 30)
    assert seen["chunk_delay_us"]["max"] < 5_000_000


def test_a_stream_without_all_its_chunks_is_an_error(tools, servers, bodies):
    control(servers[0], 6)
    seen = load(tools, servers[0], bodies, "--connections", "2", "--requests", "2", "--chunks", "7")
    assert (seen["errors"], seen["first_error"]) == (2, "chunks 6")


def test_a_stream_ends_with_usage_and_the_last_event(servers):
    control(servers[0], 2)
    status, body = ask(servers[0], "POST", "/v1/chat/completions", b"x" * 400)
    events = body.decode().split("\n\n")
    assert status == 200
    assert len(events) == 5
    assert json.loads(events[2].removeprefix("data: "))["usage"]["prompt_tokens"] == 100
    assert events[3:] == ["data: [DONE]", ""]


def test_completions_that_are_not_streamed_come_whole_whatever_control_said(servers):
    control(servers[0], 5)
    assert json.loads(ask(servers[0], "POST", "/v1/completions", b"{}")[1])["object"] == "chat.completion"


def test_poisson_arrivals_come_at_about_their_rate(tools, servers, bodies):
    control(servers[0], 0)
    seen = load(tools, servers[0], bodies, "--connections", "8", "--seconds", "0.5", "--rate", "400")
    assert 120 < seen["requests"] < 290
    assert seen["errors"] == 0


def test_pages_models_and_counts_are_told(servers):
    assert ask(servers[1], "GET", "/metrics") == (200, b"vllm:num_requests_waiting 3\n")
    assert json.loads(ask(servers[1], "GET", "/v1/models")[1])["data"][0]["id"] == "m"
    assert ask(servers[1], "GET", "/health")[0] == 200
    assert ask(servers[1], "POST", "/v1/chat/completions/render", b"{}") == (200, b"{}")
    assert ask(servers[1], "POST", "/tokenize", b"{}")[0] == 404
    assert json.loads(ask(servers[0], "GET", "/stats")[1])["scrapes"] >= 1


def test_control_without_its_two_numbers_is_refused(servers):
    assert ask(servers[0], "GET", "/control?chunks=1")[0] == 400


class Scripted(socketserver.BaseRequestHandler):
    """Answers each request with the server's bytes, cut in pieces of `piece`, and closes if told so."""

    def handle(self):
        while self.request.recv(65536):
            answer, piece = self.server.answer, self.server.piece
            for start in range(0, len(answer), piece):
                self.request.sendall(answer[start : start + piece])
            if self.server.closes:
                return


@contextlib.contextmanager
def scripted(answer: bytes, piece: int = 1 << 16, *, closes: bool = False):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Scripted)
    server.daemon_threads = True
    server.answer, server.piece, server.closes = answer, piece, closes
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = HEAD + b'1c\r\ndata: "~00000000000000000001\r\n2;ext=1\r\n"\n\r\n0\r\nTrailer: x\r\n\r\n'


@pytest.mark.parametrize("piece", [1, 3, 7, 1 << 16])
def test_answers_are_read_however_they_are_cut(tools, bodies, piece):
    with scripted(CHUNKED, piece) as port:
        seen = load(tools, port, bodies, "--connections", "1", "--requests", "3", "--chunks", "1")
    assert (seen["requests"], seen["errors"], seen["first_error"]) == (3, 0, "")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno", "status 503"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "broken answer at stage 8"),
        (HEAD + b"zz\r\n", "broken answer at stage 8"),
        (HEAD + b"3\r\nabcX\r\n", "broken answer at stage 8"),
    ],
)
def test_answers_that_fail_or_break_off_are_errors(tools, bodies, answer, error):
    with scripted(answer, closes=True) as port:
        seen = load(tools, port, bodies, "--connections", "1", "--requests", "2")
    assert (seen["requests"], seen["errors"], seen["first_error"]) == (2, 2, error)


def test_an_answer_may_end_with_its_connection(tools, bodies):
    with scripted(b"HTTP/1.1 200 OK\r\n\r\nall of it", closes=True) as port:
        seen = load(tools, port, bodies, "--connections", "1", "--requests", "2")
    assert (seen["requests"], seen["errors"]) == (2, 0)


def test_requests_that_are_never_answered_are_errors(tools, bodies):
    with scripted(b"") as port:
        seen = load(tools, port, bodies, "--connections", "2", "--seconds", "0.1", "--patience", "0.1")
    assert (seen["requests"], seen["errors"]) == (0, 2)


def test_bodies_without_a_place_for_the_number_are_refused(tools, servers, tmp_path):
    path = tmp_path / "bodies.jsonl"
    path.write_text('{"model": "m"}\n')
    command = [str(tools["load"]), "--port", str(servers[0]), "--bodies", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "a body without ################" in done.stderr


def test_sources_that_do_not_compile_are_told(tmp_path):
    (tmp_path / "mock.c").write_text("int main(void) { return missing; }\n")
    (tmp_path / "common.c").write_text("")
    with pytest.raises(ToolError, match=r"mock\.c does not compile:(.|\n)*missing"):
        build(tmp_path / "out", tmp_path)


def test_without_a_compiler_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="apt-get install gcc"):
        build(tmp_path / "out")
