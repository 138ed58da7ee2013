"""D08 (VR i135): `/v1/models` was 500 while one worker was down. D09 (PS p927): its entries lost fields."""

from tests.e2e.kit import eventually, free_port

CARD = {
    "id": "m", "object": "model", "created": 1796041452, "owned_by": "vllm", "root": "/models/m", "parent": None,
    "max_model_len": 4096, "permission": [{"id": "modelperm-1", "allow_view": True}],
}  # fmt: skip
ADAPTER = {"id": "a", "object": "model", "root": "/adapters/a", "parent": "m", "max_model_len": None}


def listing(*cards):
    return {"object": "list", "data": list(cards)}


async def test_the_union_of_those_that_answer_is_listed_with_every_field_and_each_id_once(recorder, route):
    one, other = await recorder(models=listing(CARD)), await recorder(models=listing(CARD, ADAPTER))
    router = await route(f"http://127.0.0.1:{free_port()}", one, other)

    async def told():
        answer = await router.client.get("/v1/models")
        assert answer.status_code == 200
        return answer.json() if len(answer.json()["data"]) == 2 else None

    assert await eventually(told) == listing(CARD, ADAPTER)
