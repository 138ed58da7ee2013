"""What the tiers do, seen from outside: usage and metrics."""

import pytest

from tests.simserver.kit import metric

BY_TIER = "vllm:prompt_tokens_cached_by_source_total"


async def complete(client, prompt, **fields):
    """Cached tokens of a completion of one token."""
    body = {"prompt": prompt, "max_tokens": 1, **fields}
    usage = (await client.post("/v1/completions", json=body)).json()["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"]


async def test_a_prompt_that_left_the_gpu_tier_comes_from_the_cpu_tier(launch, connect):
    client = await connect(await launch(gpu_blocks=33, cpu_blocks=256))
    await complete(client, [1] * 400)
    await complete(client, [2] * 500)

    assert await complete(client, [1] * 400) == 384
    assert (
        await metric(client, BY_TIER, source="host") + await metric(client, BY_TIER, source="device") == 384
    )
    assert await metric(client, BY_TIER, source="host") >= 368


async def test_without_a_cpu_tier_it_is_computed_again(launch, connect):
    client = await connect(await launch(gpu_blocks=33))
    await complete(client, [1] * 400)
    await complete(client, [2] * 500)

    assert await complete(client, [1] * 400) == 0


async def test_counters_agree_with_each_other(launch, connect):
    client = await connect(await launch(gpu_blocks=33, cpu_blocks=256))
    for prompt in ([1] * 400, [2] * 500, [1] * 400, [1] * 400):
        await complete(client, prompt)

    assert await metric(client, "vllm:prompt_tokens_total") == 1700
    assert await metric(client, "vllm:prompt_tokens_by_source_total", source="local_compute") == 932
    assert await metric(client, "vllm:prompt_tokens_cached_total") == 768
    assert await metric(client, "vllm:prefix_cache_queries_total") == 1700
    assert await metric(client, "vllm:prefix_cache_hits_total") == await metric(
        client, BY_TIER, source="device"
    )
    assert await metric(client, "vllm:external_prefix_cache_hits_total") == await metric(
        client, BY_TIER, source="host"
    )
    assert await metric(client, "vllm:generation_tokens_total") == 4
    assert await metric(client, "vllm:request_success_total", finished_reason="length") == 4
    assert await metric(client, "vllm:kv_offload_load_bytes_total") == 131_072 * await metric(
        client, BY_TIER, source="host"
    )
    assert await metric(client, "vllm:time_to_first_token_seconds_count") == 4
    assert await metric(client, "vllm:request_prompt_tokens_sum") == 1700
    assert await metric(client, "vllm:request_prefill_kv_computed_tokens_sum") == 932


async def test_an_answer_that_comes_back_as_history_hits_its_own_blocks(launch, connect):
    """Generated words encode to the tokens that were generated, so the second turn finds them."""
    client = await connect(await launch())
    messages = [{"role": "user", "content": "tell me a long story about a cache " * 4}]
    path = "/v1/chat/completions"
    first = (await client.post(path, json={"messages": messages, "max_tokens": 64})).json()
    messages += [first["choices"][0]["message"], {"role": "user", "content": "go on"}]
    second = (await client.post(path, json={"messages": messages, "max_tokens": 1})).json()
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached > first["usage"]["prompt_tokens"] + 40


@pytest.mark.parametrize("field", [{"model": "fine-tuned"}, {"cache_salt": "mine"}])
async def test_adapters_and_salts_have_caches_of_their_own(launch, connect, field):
    client = await connect(await launch(lora=("fine-tuned",)))
    await complete(client, [1] * 100)

    assert await complete(client, [1] * 100, **field) == 0
    assert await complete(client, [1] * 100, **field) == 96
    assert await complete(client, [1] * 100) == 96


async def test_the_tokenizer_does_not_give_four_bytes_a_token(launch, connect):
    client = await connect(await launch())
    ratios = {}
    for name, text in {
        "english": "The router keeps an index of prefixes and sends each request to the server that holds most of it.",
        "vietnamese": "Bộ định tuyến giữ một chỉ mục các tiền tố và gửi mỗi yêu cầu đến máy chủ phù hợp nhất.",
        "chinese": "路由器保存前缀的索引。每个请求都会发送到最合适的服务器。",
        "code": "for index, value in enumerate(values):\n    if value is None:\n        raise ValueError(index)\n",
    }.items():
        count = (await client.post("/tokenize", json={"prompt": text})).json()["count"]
        ratios[name] = len(text.encode()) / count

    assert 3.0 < ratios["english"] < 3.9
    assert 2.0 < ratios["vietnamese"] < 3.2
    assert 1.2 < ratios["chinese"] < 2.2
    assert 4.0 < ratios["code"] < 4.5


async def test_the_cpu_tier_is_reported_only_on_request(launch, connect):
    silent = await connect(await launch(cpu_blocks=100))
    telling = await connect(await launch(cpu_blocks=100, report_cpu_tier=True))

    assert "kv_offload_config_info" not in (await silent.get("/metrics")).text
    assert (
        'vllm:kv_offload_config_info{cpu_blocks_per_chunk="1",cpu_kv_cache_size_bytes="209715200",'
        'cpu_kv_cache_size_tokens="1600",cpu_num_chunks="100",engine="0",model_name="sim/llama-8b"} 1.0'
    ) in (await telling.get("/metrics")).text


async def test_the_cache_config_tells_block_size_and_capacity(launch, connect):
    client = await connect(await launch(gpu_blocks=100, block_size=32))
    page = (await client.get("/metrics")).text
    line = next(line for line in page.splitlines() if line.startswith("vllm:cache_config_info{"))

    for label in ('block_size="32"', 'num_gpu_blocks="100"', 'kv_cache_size_tokens="3200"'):
        assert f",{label}," in line.replace("{", ",")


async def test_adapters_are_listed_with_their_parent(launch, connect):
    client = await connect(await launch(lora=("one", "two")))
    cards = (await client.get("/v1/models")).json()["data"]

    assert [(card["id"], card["parent"], card["max_model_len"]) for card in cards] == [
        ("sim/llama-8b", None, 65_520),
        ("one", "sim/llama-8b", None),
        ("two", "sim/llama-8b", None),
    ]


async def test_the_adapters_at_work_are_on_the_metrics_page(launch, connect):
    client = await connect(await launch(lora=("one",)))
    await complete(client, [1] * 10, model="one")
    page = (await client.get("/metrics")).text
    prefix = 'vllm:lora_requests_info{max_lora="1",running_lora_adapters='

    assert f'{prefix}"one",waiting_lora_adapters=""}}' in page
    assert f'{prefix}"",waiting_lora_adapters=""}}' in page
