"""A16 (GIE p2415): a plugin assumed the completions schema and met a null in a chat. Every plugin, every API."""

import pytest

from epp.config.catalog import default_registry
from epp.scheduling.registry import PluginKind
from tests.director.core import Pool

REQUESTS = {
    "completions": ("/v1/completions", b'{"model":"m","prompt":"a"}'),
    "completions-ids": ("/v1/completions", b'{"model":"m","prompt":[1,2]}'),
    "chat": ("/v1/chat/completions", b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'),
    "chat-null": ("/v1/chat/completions", b'{"model":"m","messages":[{"role":"user","content":null}]}'),
    "responses": ("/v1/responses", b'{"model":"m","input":"hi"}'),
    "messages": ("/v1/messages", b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'),
    "embeddings": ("/v1/embeddings", b'{"model":"m","input":["a"]}'),
    "empty": ("/v1/chat/completions", b"{}"),
    "no-schema": ("/v1/x", b"\xff"),
    "no-body": ("/v1/models/m", b""),
}

# What a plugin cannot do without.
PARAMETERS = {
    "by-label": "{label: zone, allowsNoLabel: true}",
    "by-label-selector": "{matchExpressions: [{key: zone, operator: DoesNotExist}]}",
    "label-selector-filter": "{matchExpressions: [{key: zone, operator: DoesNotExist}]}",
    "utilization-filter": "{conditions: [{metric: waiting-queue, maxValue: 9}]}",
    "prefill-filter": None,  # no endpoint here is one for prefill
}
CONFIG = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {{type: {type}, parameters: {parameters}}}
"""
DECIDING = {PluginKind.FILTER, PluginKind.SCORER, PluginKind.PICKER}
TYPES = sorted(
    t.type
    for t in default_registry().types()
    if t.kind in DECIDING and PARAMETERS.get(t.type, "{}") is not None
)


@pytest.mark.parametrize("plugin", TYPES)
def test_every_api_is_picked_and_ended_whatever_the_plugin(plugin):
    pool = Pool(n=2, config=CONFIG.format(type=plugin, parameters=PARAMETERS.get(plugin, "{}")))
    for now, (path, body) in enumerate(REQUESTS.values(), start=1):
        exchange = pool.open(body, path=path, now=float(now))
        target = pool.director.pick(exchange, float(now))
        pool.director.response_headers(exchange)
        pool.answer(exchange, now=float(now))
        assert target.address in {"10.0.0.1:8000", "10.0.0.2:8000"}

    assert [record.status for record in pool.records] == [200] * len(REQUESTS)
    assert pool.ledger.total() == 0
