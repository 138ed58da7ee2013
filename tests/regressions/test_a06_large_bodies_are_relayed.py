"""A06 (AG i827, GIE i854, GIE p2058): bodies over 32 KiB or 128 KiB failed with 413 or 500."""

import pytest

SIZES = (32_768, 32_769, 131_073, 1 << 20, 16 << 20)


def body_of(size):
    frame = b'{"model":"m","prompt":"%b"}'
    return frame % (b"a" * (size - len(frame % b"")))


async def test_bodies_of_any_size_arrive_whole(stage):
    endpoint, router = stage
    for size in SIZES:
        assert (await router.client.post("/v1/completions", content=body_of(size))).status_code == 200

    assert [len(asked.body) for asked in endpoint.relayed()] == list(SIZES)
    assert {asked.body == body_of(len(asked.body)) for asked in endpoint.relayed()} == {True}


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_configured_limit_is_413(recorder, route, chunked):
    endpoint = await recorder()
    router = await route(endpoint, max_request_bytes=32_768)

    async def pieces():
        for _ in range(9):
            yield bytes(4096)

    content = pieces() if chunked else body_of(32_769)
    refused = await router.client.post("/v1/completions", content=content)
    served = await router.client.post("/v1/completions", content=body_of(32_768))

    assert (refused.status_code, served.status_code) == (413, 200)
    assert refused.json()["error"]["code"] == "payload_too_large"
    assert [len(asked.body) for asked in endpoint.relayed()] == [32_768]
