"""Embedding input of content parts was refused."""


async def test_embedding_input_of_parts_is_forwarded(stage):
    endpoint, router = stage
    raw = (
        b'{"model":"m","input":[{"type":"text","text":"a"},'
        b'{"type":"image_url","image_url":{"url":"http://x/i.png"}}]}'
    )
    answer = await router.client.post(
        "/v1/embeddings", content=raw, headers={"content-type": "application/json"}
    )

    assert answer.status_code == 200
    assert [asked.body for asked in endpoint.relayed()] == [raw]
