"""Which models endpoints serve, and how many bytes their tokens have."""

import asyncio
import json

import pytest

from epp.endpoints.types import ModelInfo
from epp.http.types import ErrorKind
from epp.scrape.models import SAMPLE_TEXT, ModelProbe, ModelProbeSettings, read_models
from epp.scrape.probing import ScrapeError
from tests.scrape.fakes import FakeNetwork, FakeTime, Receiver, endpoint, failed

E1 = "10.0.0.1:8000"
TINY = b'{"id":"tiny", "root":"/models/tiny","parent":null,"max_model_len":4096}'
ADAPTER = b'{"id":"lora-1","root":"/loras/1","parent":"tiny"}'
LIST = b'{"object":"list","data":[%b,%b]}' % (TINY, ADAPTER)
MODELS = (
    ModelInfo("tiny", None, "/models/tiny", TINY),
    ModelInfo("lora-1", "tiny", "/loras/1", ADAPTER),
)
SAMPLE_BYTES = len(SAMPLE_TEXT.encode())


def test_entries_keep_their_json_as_it_came():
    assert read_models(LIST) == MODELS


def test_entries_without_a_usable_id_are_left_out():
    body = b'{"data":[{"id":7},{},"x",{"id":""},{"id":"a","parent":3},{"id":"b"}]}'

    assert [model.id for model in read_models(body)] == ["b"]


def test_empty_list_is_no_models():
    assert read_models(b'{"data":[]}') == ()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"data":{}}',
        b"<html>",
        b'{"data":[',
        b'{"data":["\xff"]}',
        b'{"data":[{"id":"\\ud800"}]}',
    ],
)
def test_anything_else_is_an_error(body):
    with pytest.raises(ScrapeError, match="not a list of models"):
        read_models(body)


class Scene:
    """A probe, started, and everything around it."""

    def __init__(self, *endpoints, **settings):
        self.time = FakeTime()
        self.network = FakeNetwork(self.time)
        self.receiver = Receiver()
        self.lines = []
        self.tokens = {}  # host → answer of /tokenize
        self.lists = {}  # host → answer of /v1/models
        self.probe = ModelProbe(
            self.network.fetch,
            self.receiver,
            ModelProbeSettings(**settings),
            clock=self.time,
            sleep=self.time.sleep,
            log=self.lines.append,
        )
        for place in endpoints:
            host = place.spec.host
            self.network.answers[host] = lambda request, host=host: self.answer(host, request)
        self.probe.sync(endpoints)
        self.probe.start()

    def answer(self, host, request):
        if request.target == b"/v1/models":
            return self.lists.get(host, LIST)
        return self.tokens.get(host, b'{"count":100,"max_model_len":4096,"tokens":[1]}')

    async def run(self, seconds=0.01):
        await self.time.run(seconds)

    def targets(self):
        return [asked.request.target for asked in self.network.asked]


async def test_models_are_told_and_the_base_model_is_measured():
    scene = Scene(endpoint(1, incarnation=4))
    await scene.run()

    assert scene.receiver.models == [(E1, 4, MODELS, 0.0)]
    assert scene.receiver.ratios == [("tiny", round(SAMPLE_BYTES / 100, 3))]
    assert scene.targets() == [b"/v1/models", b"/tokenize"]
    await scene.probe.stop()


async def test_requests_are_plain_and_carry_no_authorization():
    scene = Scene(endpoint(1), timeout_s=3.0)
    await scene.run()

    get, post = (asked.request for asked in scene.network.asked)
    assert (get.method, get.headers, get.body) == (b"GET", [(b"accept", b"application/json")], b"")
    assert post.headers == [(b"accept", b"application/json"), (b"content-type", b"application/json")]
    assert (post.method, json.loads(post.body)) == (
        b"POST",
        {"model": "tiny", "prompt": SAMPLE_TEXT, "add_special_tokens": False},
    )
    assert {asked.timeout_s for asked in scene.network.asked} == {3.0}
    await scene.probe.stop()


async def test_configured_key_is_sent_to_both_routes_over_the_configured_scheme():
    scene = Scene(endpoint(1), api_key="k1", scheme="https")
    await scene.run()

    assert [(b"authorization", b"Bearer k1") in asked.request.headers for asked in scene.network.asked] == [
        True,
        True,
    ]
    assert {asked.origin.scheme for asked in scene.network.asked} == {"https"}
    await scene.probe.stop()


async def test_models_are_listed_again_each_interval_and_measured_once():
    scene = Scene(endpoint(1), interval_s=60.0)
    await scene.run(130)

    assert [at for _, _, _, at in scene.receiver.models] == [0.0, 60.0, 120.0]
    assert len(scene.receiver.ratios) == 1
    await scene.probe.stop()


async def test_new_incarnation_is_listed_at_once():
    scene = Scene(endpoint(1, incarnation=1))
    await scene.run(10)
    scene.probe.sync([endpoint(1, incarnation=2)])
    await scene.run(1)

    assert [(incarnation, at) for _, incarnation, _, at in scene.receiver.models] == [(1, 0.0), (2, 10.0)]
    await scene.probe.stop()


async def test_one_endpoint_measures_for_all():
    scene = Scene(*(endpoint(last) for last in range(1, 6)))
    await scene.run()

    assert len(scene.receiver.models) == 5
    assert scene.targets().count(b"/tokenize") == 1
    assert len(scene.receiver.ratios) == 1
    await scene.probe.stop()


@pytest.mark.parametrize(
    "answer",
    [
        404,
        b"{}",
        b'{"count":0}',
        b'{"count":-1}',
        b'{"count":"7"}',
        b"<html>",
        b'{"count":\xff}',
        failed(ErrorKind.BROKEN),
    ],
)
async def test_endpoint_that_cannot_tokenize_is_asked_once_and_the_next_one_instead(answer):
    scene = Scene(endpoint(1), interval_s=60.0)
    scene.tokens["10.0.0.1"] = answer
    await scene.run(130)
    nothing = scene.receiver.ratios[:]
    scene.network.answers["10.0.0.2"] = lambda request: scene.answer("10.0.0.2", request)
    scene.probe.sync([endpoint(1), endpoint(2)])
    await scene.run()

    assert nothing == []
    assert scene.targets().count(b"/tokenize") == 2
    assert len(scene.receiver.ratios) == 1
    assert scene.lines == []
    await scene.probe.stop()


async def test_measuring_that_is_cut_off_by_a_removal_is_left_to_another_endpoint():
    scene = Scene(endpoint(1), endpoint(2), interval_s=60.0)
    scene.tokens["10.0.0.1"] = asyncio.get_running_loop().create_future()
    await scene.run()
    scene.probe.sync([endpoint(2)])
    await scene.run(60)

    assert scene.receiver.ratios == [("tiny", round(SAMPLE_BYTES / 100, 3))]
    await scene.probe.stop()


async def test_failure_is_logged_and_tried_again_soon():
    scene = Scene(endpoint(1), interval_s=60.0, retry_s=5.0)
    scene.lists["10.0.0.1"] = failed(ErrorKind.CONNECT, "refused")
    await scene.run(12)
    scene.lists["10.0.0.1"] = LIST
    await scene.run(5)

    assert scene.network.times() == [0.0, 5.0, 10.0, 15.0, 15.0]
    assert scene.lines == [
        "listing the models of 10.0.0.1:8000 failed: connect: refused",
        "listing the models of 10.0.0.1:8000 works again, failures before: 3",
    ]
    await scene.probe.stop()


@pytest.mark.parametrize(
    ("answer", "text"), [(401, "status: /v1/models answered 401"), (b"[]", "not a list of models")]
)
async def test_bad_answer_is_a_failure(answer, text):
    scene = Scene(endpoint(1))
    scene.lists["10.0.0.1"] = answer
    await scene.run()

    assert scene.receiver.models == []
    assert text in scene.lines[0]
    await scene.probe.stop()


async def test_an_endpoint_can_be_asked_anew_at_once():
    scene = Scene(endpoint(1))
    await scene.run()
    scene.probe.refresh(E1)
    await scene.run()

    assert scene.targets().count(b"/v1/models") == 2
    await scene.probe.stop()
