"""Adapters that the simulated server gets while it runs."""

import pytest

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
ADAPTER = {"lora_name": "support", "lora_path": "/adapters/support"}


@pytest.fixture
async def client(launch, connect):
    return await connect(await launch(runtime_lora=True))


async def models(client):
    return [card["id"] for card in (await client.get("/v1/models")).json()["data"]]


async def test_an_adapter_is_served_from_loading_to_unloading(client):
    loaded = await client.post(LOAD, json=ADAPTER)
    served = await models(client)
    answer = await client.post("/v1/completions", json={"model": "support", "prompt": "a", "max_tokens": 1})
    page = (await client.get("/metrics")).text
    unloaded = await client.post(UNLOAD, json={"lora_name": "support"})

    assert loaded.text == "Success: LoRA adapter 'support' added successfully."
    assert served == ["sim/llama-8b", "support"]
    assert answer.json()["model"] == "support"
    assert "vllm:lora_requests_info" in page
    assert unloaded.text == "Success: LoRA adapter 'support' removed successfully."
    assert await models(client) == ["sim/llama-8b"]


@pytest.mark.parametrize(
    "path, body, status, words",
    [
        (LOAD, {"lora_name": "a"}, 400, "must be provided"),
        (LOAD, {"lora_name": "sim/llama-8b", "lora_path": "/a"}, 400, "conflicts with a served base model"),
        (UNLOAD, {}, 400, "needs to be provided"),
        (UNLOAD, {"lora_name": "a"}, 404, "cannot be found"),
    ],
)
async def test_what_cannot_be_done_is_refused_in_vllms_words(client, path, body, status, words):
    answer = await client.post(path, json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


async def test_loading_again_needs_to_be_asked_for(client):
    await client.post(LOAD, json=ADAPTER)
    again = await client.post(LOAD, json=ADAPTER)
    in_place = await client.post(LOAD, json=ADAPTER | {"load_inplace": True})

    assert (again.status_code, in_place.status_code) == (400, 200)
    assert "has already been loaded" in again.json()["error"]["message"]
    assert await models(client) == ["sim/llama-8b", "support"]


async def test_without_the_flag_there_is_no_such_route(launch, connect):
    client = await connect(await launch())
    assert (await client.post(LOAD, json=ADAPTER)).status_code == 404
