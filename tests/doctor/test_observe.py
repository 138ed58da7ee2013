"""What the endpoints are asked, over a scripted network."""

import asyncio
import json

import pytest

from epp.clock import ManualClock
from epp.doctor import ObserveOptions
from epp.doctor.observation import Answer, read_observation
from epp.doctor.observe import observe, observe_all
from epp.endpoints.types import EndpointSpec
from epp.http import ErrorKind, FetchError, Response, UpstreamFailure
from epp.scrape import CoreNames
from epp.scrape.engines import Selector
from tests.doctor.builders import IDLE

ANSWERS = {
    "/health": b"",
    "/v1/models": b'{"data": [{"id": "sql", "parent": "tiny"}, {"id": "tiny", "max_model_len": 4096}]}',
    "/version": b'{"version": "0.32.0"}',
    "/metrics": IDLE.encode(),
    "/v1/completions": b'{"usage": {"prompt_tokens_details": {"cached_tokens": 0}}}',
}
SPEC = EndpointSpec("http", "10.0.0.1", 8000)


class Network:
    """Answers by path; an answer is a body, a status, an exception or headers with a body."""

    def __init__(self, answers=None):
        self.answers = ANSWERS | (answers or {})
        self.clock = ManualClock()
        self.asked = []

    async def fetch(self, origin, request, timeout_s):
        self.asked.append(
            (request.method.decode(), request.target.decode(), request.headers, request.body, timeout_s)
        )
        self.clock.advance(0.25)
        answer = self.answers.get(request.target.decode(), 404)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return Response(answer, [], b"")
        if isinstance(answer, Response):
            return answer
        return Response(200, [(b"server", b"uvicorn")], answer)

    def paths(self):
        return [path for _, path, *_ in self.asked]


def failure(kind, detail="gone"):
    return FetchError(UpstreamFailure(kind, detail, written=False))


async def look(network, **options):
    return await observe(SPEC, network.fetch, ObserveOptions(**options), network.clock)


async def test_an_endpoint_is_asked_four_things_and_never_for_a_completion():
    network = Network()

    seen = await look(network, timeout_s=7.0)

    assert network.paths() == ["/health", "/v1/models", "/version", "/metrics"]
    assert {timeout_s for *_, timeout_s in network.asked} == {7.0}
    assert (seen.engine, seen.version, seen.probe) == ("vllm", (0, 32, 0), None)
    assert [model.id for model in seen.base_models] == ["tiny"]
    assert dict(seen.context_tokens) == {"tiny": 4096}
    assert seen.page.took_s == 0.25


async def test_a_probe_asks_the_base_model_for_one_token_before_the_page():
    network = Network()

    seen = await look(network, probe=True, api_key="k")

    assert network.paths()[-2:] == ["/v1/completions", "/metrics"]
    method, _, headers, body, _ = network.asked[-2]
    assert method == "POST"
    assert json.loads(body) == {"model": "tiny", "prompt": "Hello", "max_tokens": 1}
    assert (b"content-type", b"application/json") in headers
    assert all((b"authorization", b"Bearer k") in headers for _, _, headers, *_ in network.asked)
    assert seen.tells_cached_tokens is True


@pytest.mark.parametrize("models", [401, b"?", b'{"data": []}'])
async def test_a_probe_without_a_known_model_names_none(models):
    network = Network(answers={"/v1/models": models})

    await look(network, probe=True)

    assert json.loads(network.asked[-2][3]) == {"prompt": "Hello", "max_tokens": 1}


@pytest.mark.parametrize("kind", [ErrorKind.CONNECT, ErrorKind.CONNECT_TIMEOUT])
async def test_an_unreachable_endpoint_is_asked_once(kind):
    network = Network(answers={"/health": failure(kind, "refused")})

    seen = await look(network, probe=True)

    assert network.paths() == ["/health"]
    assert seen.health.unreachable
    assert seen.health.fault == "refused"


async def test_another_failure_is_an_answer_too():
    network = Network(answers={"/metrics": failure(ErrorKind.TOTAL_TIMEOUT, "")})

    seen = await look(network)

    assert (seen.page.status, seen.page.fault, seen.page.unreachable) == (None, "total-timeout", False)
    assert seen.metrics is None


async def test_the_configured_path_is_asked():
    network = Network(answers={"/stats": IDLE.encode()})

    seen = await look(network, metrics_path="/stats")

    assert network.paths()[-1] == seen.page_path == "/stats"


async def test_tensorrt_llm_is_asked_for_its_own_path():
    network = Network()
    spec = EndpointSpec("http", "10.0.0.1", 8000, labels={"llm-d.ai/engine-type": "trtllm-serve"})

    seen = await observe(spec, network.fetch, ObserveOptions(), network.clock)

    assert seen.page_path == "/prometheus/metrics"
    assert seen.page.status == 404


@pytest.mark.parametrize(("value", "seconds"), [(b"timeout=2, max=100", 2.0), (b"max=100", None)])
async def test_the_keep_alive_header_is_read(value, seconds):
    network = Network(answers={"/health": Response(200, [(b"Keep-Alive", value)], b"")})

    assert (await look(network)).health.keep_alive_s == seconds


async def test_slow_endpoints_are_told_by_name_and_results_keep_their_order():
    told, release = [], asyncio.Event()

    async def fetch(origin, request, timeout_s):
        if origin.host == "10.0.0.1":
            await release.wait()
        raise failure(ErrorKind.CONNECT)

    def on_slow(addresses):
        told.append(addresses)
        release.set()

    specs = [EndpointSpec("http", host, 8000) for host in ("10.0.0.1", "10.0.0.2")]
    pool = await observe_all(specs, fetch, ObserveOptions(), ManualClock(), on_slow, tell_every_s=0.01)

    assert told == [["10.0.0.1:8000"]]
    assert [seen.address for seen in pool] == ["10.0.0.1:8000", "10.0.0.2:8000"]


async def test_configured_names_of_metrics_are_read_as_the_router_reads_them():
    names = CoreNames(waiting=Selector("my:waiting"))
    seen = read_observation(
        EndpointSpec("http", "10.0.0.1", 8000),
        health=Answer(200),
        page=Answer(200, b"my:waiting 3\nvllm:num_requests_waiting 5\n"),
        models_list=Answer(200, b"{}"),
        version_page=Answer(200, b"{}"),
        names=names,
    )

    assert seen.metrics.waiting == 3.0
