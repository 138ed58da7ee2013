"""What the server sends, against what vLLM 0.32 was recorded to send."""

import json
import re

import pytest

from tests.simserver.kit import FIXTURES, chat, raw_exchange, raw_post

TINY = {"model": "tiny", "gpu_blocks": 257, "max_model_len": 4096, "request_id_headers": True}
LITERAL = {"object", "index", "role", "finish_reason", "type", "param", "code", "owned_by", "root"}


def shape(value, key=""):
    """A document with its values replaced by their types, but for those that are part of the protocol."""
    if isinstance(value, dict):
        return [(name, shape(item, name)) for name, item in value.items()]
    if isinstance(value, list):
        return [shape(item, key) for item in value]
    return value if key in LITERAL else type(value).__name__


def parse_raw(data):
    """Status line, header names, and the chunks of a chunked response."""
    head, _, body = data.partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    chunks = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        chunks.append(rest[: int(size, 16)])
        body = rest[int(size, 16) + 2 :]
    return status, [header.partition(":")[0] for header in headers], chunks


def event_shapes(chunks):
    """Shapes of the events in chunks; every chunk must hold exactly one event."""
    shapes = []
    for chunk in chunks:
        payload = re.fullmatch(rb"data: (.*)\n\n", chunk)
        if payload is None:
            shapes.append(chunk)
        else:
            text = payload.group(1)
            shapes.append(text if text == b"[DONE]" else shape(json.loads(text)))
    return shapes


@pytest.mark.parametrize(
    ("fixture", "options"),
    [("sse-chat.http", {}), ("sse-chat-usage.http", {"stream_options": {"include_usage": True}})],
)
async def test_a_chat_stream_has_the_recorded_bytes_but_for_ids_and_text(launch, fixture, options):
    server = await launch(**TINY)
    data = await raw_exchange(
        server, raw_post("/v1/chat/completions", chat(max_tokens=6, stream=True, **options))
    )
    ours, recorded = parse_raw(data), parse_raw((FIXTURES / fixture).read_bytes())

    assert ours[:2] == recorded[:2]
    assert event_shapes(ours[2]) == event_shapes(recorded[2])


async def test_a_chat_reply_has_the_recorded_shape(launch, connect, recorded):
    client = await connect(await launch(**TINY))
    response = await client.post(
        "/v1/chat/completions",
        json=chat(max_tokens=6),
        headers={"x-request-id": "req-1", "connection": "close"},
    )

    assert list(response.headers) == list(recorded["chat"]["headers"])
    assert shape(response.json()) == shape(recorded["chat"]["body"])
    assert response.json()["id"] == "chatcmpl-req-1"


@pytest.mark.parametrize(
    ("case", "path", "body"),
    [
        ("unknown_model", "/v1/chat/completions", json.dumps(chat(model="nope"))),
        ("malformed", "/v1/chat/completions", '{"model": "tiny", "messages":  }'),
        ("missing_messages", "/v1/chat/completions", '{"model": "tiny"}'),
        ("too_long", "/v1/completions", json.dumps({"prompt": [7] * 5000, "max_tokens": 4})),
        ("bad_temperature", "/v1/chat/completions", json.dumps(chat(temperature=-1))),
        ("unknown_path", "/v1/nothing", "{}"),
    ],
)
async def test_an_error_is_the_recorded_one_to_the_byte(launch, connect, recorded, case, path, body):
    client = await connect(await launch(**TINY))
    response = await client.post(
        path, content=body, headers={"content-type": "application/json", "connection": "close"}
    )
    expected = recorded["errors"][case]

    assert response.status_code == expected["status"]
    assert response.text == expected["body"]
    assert [name for name in response.headers if name != "date"] == list(expected["headers"])


async def test_the_model_list_has_the_recorded_shape(launch, connect, recorded):
    client = await connect(await launch(**TINY))
    response = await client.get("/v1/models")

    assert shape(response.json()) == shape(recorded["/v1/models"])


async def test_version_load_and_tokenize_have_the_recorded_shape(launch, connect, recorded):
    client = await connect(await launch(**TINY))
    tokenize = (await client.post("/tokenize", json=chat())).json()

    assert (await client.get("/version")).json() == recorded["/version"]
    assert (await client.get("/load")).json() == recorded["/load"]
    assert list(tokenize) == list(recorded["/tokenize"])
    assert tokenize["token_strs"] is None
    assert tokenize["max_model_len"] == 4096


# -------------------------------------------------------------------- metrics

SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$")


def families(page):
    """Type by family name, and label names by sample name."""
    types, labels = {}, {}
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            types[name] = kind
        elif match := SAMPLE.match(line):
            labels[match[1]] = set(re.findall(r'(\w+)="', match[2] or ""))
    return types, labels


async def test_metrics_have_the_recorded_names_types_and_labels(launch, connect):
    client = await connect(await launch(cpu_blocks=64, **TINY))
    await client.post("/v1/chat/completions", json=chat())
    types, labels = families((await client.get("/metrics")).text)
    recorded_types, recorded_labels = families((FIXTURES / "metrics-busy.txt").read_text())
    info = "vllm:cache_config_info"
    never_recorded = "vllm:kv_offload_allocation_failure"  # no store failed while the page was recorded
    del types[f"{never_recorded}_created"], labels[f"{never_recorded}_created"]
    del labels[f"{never_recorded}_total"]

    assert {name: types[name] for name in types if recorded_types.get(name) != types[name]} == {}
    assert labels.pop(info) <= recorded_labels[info]
    assert {name: labels[name] for name in labels if recorded_labels.get(name) != labels[name]} == {}


@pytest.mark.parametrize(
    "series",
    [
        "process_start_time_seconds",
        'vllm:num_requests_running{engine="0",model_name="tiny"}',
        'vllm:num_requests_waiting{engine="0",model_name="tiny"}',
        'vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"}',
        'vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"}',
        'vllm:kv_cache_usage_perc{engine="0",model_name="tiny"}',
        'vllm:prefix_cache_queries_total{engine="0",model_name="tiny"}',
        'vllm:prefix_cache_hits_total{engine="0",model_name="tiny"}',
        'vllm:prefix_cache_hits_created{engine="0",model_name="tiny"}',
        'vllm:external_prefix_cache_queries_total{engine="0",model_name="tiny"}',
        'vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"}',
        'vllm:prompt_tokens_total{engine="0",model_name="tiny"}',
        'vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"}',
        'vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_cache_hit"}',
        'vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="external_kv_transfer"}',
        'vllm:prompt_tokens_cached_total{engine="0",model_name="tiny"}',
        'vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="tiny",source="device"}',
        'vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="tiny",source="host"}',
        'vllm:generation_tokens_total{engine="0",model_name="tiny"}',
        'vllm:num_preemptions_total{engine="0",model_name="tiny"}',
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"}',
        'vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"}',
        'vllm:admission_rejections_total{model_name="tiny",reason="max_num_queued_reqs"}',
        'vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="awake"}',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="tiny"}',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="2560.0",model_name="tiny"}',
        'vllm:inter_token_latency_seconds_bucket{engine="0",le="80.0",model_name="tiny"}',
        'vllm:e2e_request_latency_seconds_bucket{engine="0",le="7680.0",model_name="tiny"}',
        'vllm:request_prompt_tokens_bucket{engine="0",le="2000.0",model_name="tiny"}',
        'vllm:iteration_tokens_total_bucket{engine="0",le="16384.0",model_name="tiny"}',
    ],
)
def test_series_that_routers_read_are_written_as_recorded(series):
    """The recording has them in these bytes; so has the page of a server that has seen nothing."""
    from epp.engine import Engine
    from epp.simserver.metrics import SimMetrics
    from epp.simserver.settings import SimSettings

    settings = SimSettings(**TINY)
    page = SimMetrics(settings, Engine(settings.engine_config(), settings.latency), 1.0).page().decode()

    assert f"\n{series} " in (FIXTURES / "metrics-busy.txt").read_text()
    assert f"\n{series} " in page


async def test_the_metrics_page_has_the_recorded_content_type(launch, connect):
    client = await connect(await launch())

    assert (await client.get("/metrics")).headers[
        "content-type"
    ] == "text/plain; version=1.0.0; charset=utf-8"
