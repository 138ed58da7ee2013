"""A path was matched together with its query, so that an API was not known."""

from tests.e2e.kit import LONG_TEXT


async def test_a_path_is_matched_without_its_query_and_the_query_is_forwarded_verbatim(stage):
    endpoint, router = stage
    target = "/v1/chat/completions?api-version=2024-10-21&q=%2Fx"
    body = {"model": "m", "messages": [{"role": "user", "content": LONG_TEXT}]}
    for _ in range(2):
        assert (await router.client.post(target, json=body)).status_code == 200
    decisions = await router.decisions(2)

    assert [asked.target for asked in endpoint.relayed()] == [target, target]
    assert [d["predicted_gpu"] > 0 for d in decisions] == [False, True]
