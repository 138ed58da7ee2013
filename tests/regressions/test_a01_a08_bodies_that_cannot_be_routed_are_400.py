"""A01 (PS p1017): bad JSON raised in the handler, 500. A08 (LR p1426, GIE p2757): a missing model was refused blindly."""

import pytest

JSON = {"content-type": "application/json", "x-request-id": "abc"}
FAULTY = [
    b'{"model":',
    b"[1]",
    b"null",
    b'"x"',
    b'{"a":"\xff"}',
    b"[" * 100_000,
    b'{"model":"m","messages":[{"role":"user","content":"a"}]',
    b"",
]


async def test_a01_what_is_no_json_object_is_400_and_reaches_no_endpoint(stage):
    endpoint, router = stage
    answers = [
        await router.client.post("/v1/chat/completions", content=body, headers=JSON) for body in FAULTY
    ]

    assert [answer.status_code for answer in answers] == [400] * len(FAULTY)
    assert {answer.json()["error"]["type"] for answer in answers} == {"invalid_request_error"}
    assert {answer.headers["x-request-id"] for answer in answers} == {"abc"}
    assert [answer for answer in answers if "Traceback" in answer.text] == []
    assert endpoint.relayed() == []


async def test_a01_a_number_of_5000_digits_is_json_and_passes_unchanged(stage):
    endpoint, router = stage
    body = b'{"model":"m","messages":[],"seed":%b}' % (b"7" * 5000)
    answer = await router.client.post("/v1/chat/completions", content=body, headers=JSON)

    assert answer.status_code == 200
    assert [asked.body for asked in endpoint.relayed()] == [body]


@pytest.mark.parametrize(
    "body", [b'{"messages":[]}', b'{"model":null,"messages":[]}', b'{"model":"","messages":[]}']
)
async def test_a08_without_a_model_it_is_the_pools_only_one_and_the_body_stays(stage, body):
    endpoint, router = stage
    answer = await router.client.post("/v1/chat/completions", content=body, headers=JSON)

    assert answer.status_code == 200
    assert [asked.body for asked in endpoint.relayed()] == [body]


async def test_a08_in_a_pool_of_two_models_a_missing_model_is_400_and_named(recorder, route):
    listing = {"object": "list", "data": [{"id": name, "root": name, "parent": None} for name in "ab"]}
    endpoint = await recorder(models=listing)
    router = await route(endpoint)
    await router.know("a", "b")
    missing = await router.client.post("/v1/chat/completions", json={"messages": []})
    number = await router.client.post("/v1/chat/completions", json={"model": 7, "messages": []})
    elsewhere = await router.client.post("/v1/x", json={"anything": True})

    assert [missing.status_code, number.status_code, elsewhere.status_code] == [400, 400, 200]
    assert [answer.json()["error"]["param"] for answer in (missing, number)] == ["model", "model"]
