"""C15 (kgateway i12656): an invalid header name of a plugin made the whole exchange fail."""

import asyncio

from epp.config import load_config
from epp.scheduling.scorers.session_affinity import EncodedEndpointAffinity

CONFIG = load_config("""
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: session-affinity-scorer
""")
ADDED = (
    ("Bad Name:", "1"),
    ("x-split", "a\r\nset-cookie: b"),
    ("x-accent", "é"),
    ("content-length", "7000"),
    ("transfer-encoding", "gzip"),
    ("x-good", "1"),
)


async def test_unfit_headers_are_dropped_and_told_and_the_answer_passes(scripted, route, monkeypatch, capsys):
    monkeypatch.setattr(EncodedEndpointAffinity, "response_headers", lambda _self, _endpoint: ADDED)
    [endpoint] = await scripted()
    router = await route(endpoint, config=CONFIG)
    await router.know("m")
    asking = asyncio.create_task(router.client.post("/v1/completions", json={"model": "m"}))
    await (await endpoint.call()).answer(b'{"a":1}')
    answer = await asking
    told = [line for line in capsys.readouterr().err.splitlines() if "a plugin added the header" in line]

    assert (answer.status_code, answer.content) == (200, b'{"a":1}')
    assert answer.headers["x-good"] == "1"
    assert answer.headers["content-length"] == "7"
    assert {"x-split", "x-accent", "set-cookie"} & set(answer.headers) == set()
    assert len(told) == 5
