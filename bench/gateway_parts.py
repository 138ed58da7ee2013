"""CPU time of what a gateway's ways add to a decision: no socket, no gRPC, a director that decides nothing.

    python bench/gateway_parts.py [--requests 500] [--rounds 12]

"check" is from the bytes of Envoy's question to the bytes of the answer, "log" a line of the access log in
batches of 25; "none" and "headers" are from the bytes of Envoy's messages (BUFFERED) to those of the answers.
µs a request, the best of the rounds.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

from epp.director import Exchange
from epp.director.retry import RetryBudget, RetryPolicy
from epp.gateway.codec import Codec
from epp.gateway.events import ResponseDepth
from epp.gateway.messages import messages
from epp.gateway.picked import Limits, PickedRequest, Surroundings
from epp.gateway.standalone.check_protocol import CheckProtocol
from epp.gateway.standalone.checks import Checks, CheckSurroundings
from epp.gateway.standalone.lines import LineReader
from epp.http.budget import BodyBudget
from epp.request.types import Api, InferenceRequest

BODY = json.dumps({"model": "m", "prompt": "x" * 960}).encode()
ADDRESS = "127.0.0.1:9001"
HEADERS = {
    "host": "127.0.0.1:8080",
    "content-type": "application/json",
    "content-length": str(len(BODY)),
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-proto": "http",
    "x-envoy-external-address": "127.0.0.1",
    "x-request-id": "3f9c6e1e-7a0c-4a1f-9d58-3c1a2b0a4c70",
}
BATCH = 25


class Target:
    """Where everything goes."""

    address = ADDRESS


class Indifferent:
    """A director that decides nothing and keeps no books."""

    budget = RetryBudget(RetryPolicy())

    def open(self, head: Any, now: float) -> Exchange:
        exchange = Exchange(head, now, None)
        exchange.request = InferenceRequest(Api.OTHER, "m", "", (), stream=False, body_bytes=len(BODY))
        return exchange

    def prepare(self, *_: Any, **__: Any) -> Generator[None, None, None]:
        yield from ()

    def pick(self, exchange: Any, _now: float) -> Target:
        exchange.target = Target
        return Target()

    def on_response_head(self, exchange: Exchange, status: int, _now: float) -> None:
        exchange.status = status

    def on_end(self, exchange: Exchange, *_: Any, **__: Any) -> None:
        exchange.ended = True

    def response_headers(self, _exchange: Exchange) -> tuple[()]:
        return ()

    def _nothing(self, *_: Any) -> None:
        pass

    on_served = on_first_byte = _nothing
    on_unobserved = on_end


class Wire(asyncio.Transport):
    """Takes answers."""

    def write(self, data: Any) -> None:
        self.last = data


async def checks(requests: int, best: Callable[[str, Callable[[], None]], None]) -> None:
    around = CheckSurroundings(Indifferent(), time.monotonic, lambda: b"id", lambda _: "")
    kept, reader = Checks(around), LineReader()
    protocol = CheckProtocol(kept)
    protocol.connection_made(Wire())
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    question = f"POST /v1/completions HTTP/1.1\r\n{head}\r\n".encode() + BODY

    def ask() -> None:
        for _ in range(requests):
            protocol.data_received(question)

    logged = 0

    def end() -> None:
        nonlocal logged
        for first in range(logged + 1, logged + requests + 1, BATCH):
            kept.ended(reader.feed(b"".join(map(line, range(first, first + BATCH)))))
        logged += requests

    best("check", ask)
    best("log (and making its lines)", end)


def line(number: int) -> bytes:
    return (
        b'{"attempts":1,"bytes":800,"cached":null,"completion":16,"exchange":"%d","first_ms":3,"flags":"-",'
        b'"prompt":250,"served":"127.0.0.1:9001","status":200}\n' % number
    )


def streams(depth: str, requests: int) -> Callable[[], None]:
    around = Surroundings(
        Indifferent(),
        Codec(),
        Limits(1 << 20, 5.0),
        ResponseDepth(depth),
        time.monotonic,
        lambda: b"id",
        BodyBudget(1 << 30),
        lambda _: "",
        lambda *_: None,
    )
    told = list(said())[: 3 if depth == "headers" else 2]

    def run() -> None:
        for _ in range(requests):
            request = PickedRequest(around)
            for message in told:
                for _answer in request.receive(around.codec.decode(message)):
                    pass
            request.close()

    return run


def said() -> Iterable[bytes]:
    """Envoy's messages of one request."""
    kinds = messages()
    head = kinds.ProcessingRequest(protocol_config={"request_body_mode": 2})
    pseudo = {":method": "POST", ":path": "/v1/completions", ":authority": "gateway", ":scheme": "http"}
    for name, value in {**pseudo, **HEADERS}.items():
        head.request_headers.headers.headers.add(key=name, raw_value=value.encode())
    yield head.SerializeToString()
    yield kinds.ProcessingRequest(request_body={"body": BODY, "end_of_stream": True}).SerializeToString()
    answer = kinds.ProcessingRequest()
    for name, value in {":status": "200", "content-type": "application/json", "server": "uvicorn"}.items():
        answer.response_headers.headers.headers.add(key=name, raw_value=value.encode())
    yield answer.SerializeToString()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    requests = options.requests // BATCH * BATCH
    timed: dict[str, Callable[[], None]] = {}
    asyncio.run(checks(requests, timed.__setitem__))
    timed |= {f"ext_proc, {depth}": streams(depth, requests) for depth in ("none", "headers")}
    fastest = dict.fromkeys(timed, float("inf"))
    for _ in range(options.rounds):
        for name, run in timed.items():
            began = time.process_time()
            run()
            fastest[name] = min(fastest[name], (time.process_time() - began) / requests * 1e6)
    for name, us in fastest.items():
        print(f"{name:28}{us:6.1f} µs")


if __name__ == "__main__":
    main()
