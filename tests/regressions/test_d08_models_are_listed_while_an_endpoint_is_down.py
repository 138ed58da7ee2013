"""The list of models failed while an endpoint was down."""

from tests.e2e.kit import eventually, free_port

CARD = {
    "id": "m", "object": "model", "created": 1796041452, "owned_by": "vllm", "root": "/models/m", "parent": None,
    "max_model_len": 4096, "permission": [{"id": "modelperm-1", "allow_view": True}],
}  # fmt: skip


async def test_models_are_listed_while_an_endpoint_is_down(recorder, route):
    up = await recorder(models={"object": "list", "data": [CARD]})
    router = await route(f"http://127.0.0.1:{free_port()}", up)

    async def told():
        return (await router.client.get("/v1/models")).json()["data"]

    assert await eventually(told) == [CARD]
    assert (await router.client.get("/v1/models")).status_code == 200
