"""The list of models lost fields of its entries."""

CARD = {
    "id": "m", "object": "model", "created": 1796041452, "owned_by": "vllm", "root": "/models/m", "parent": None,
    "max_model_len": 4096, "permission": [{"id": "modelperm-1", "allow_view": True}],
}  # fmt: skip
ADAPTER = {"id": "a", "object": "model", "root": "/adapters/a", "parent": "m", "max_model_len": None}


def listing(*cards):
    return {"object": "list", "data": list(cards)}


async def test_entries_keep_every_field_and_stand_once(recorder, route):
    one = await recorder(models=listing(CARD))
    other = await recorder(models=listing(CARD, ADAPTER))
    router = await route(one, other)
    await router.know("m", "a")

    assert (await router.client.get("/v1/models")).json() == listing(CARD, ADAPTER)
