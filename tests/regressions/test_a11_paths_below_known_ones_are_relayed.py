"""Paths below those of known APIs were refused."""

import pytest

from tests.e2e.kit import LONG_TEXT


@pytest.mark.parametrize(
    "path, body, affinity",
    [
        ("/v1/chat/completions/render", {"messages": [{"role": "user", "content": LONG_TEXT}]}, True),
        ("/v1/rerank", {"query": LONG_TEXT, "documents": ["a"]}, True),
        ("/tokenize", {"prompt": LONG_TEXT}, True),
        ("/v1/chat/completions/derender", {"token_ids": [1]}, False),
    ],
)
async def test_paths_below_known_ones_are_relayed_with_affinity_where_the_schema_is_the_same(
    stage, path, body, affinity
):
    endpoint, router = stage
    answer = await router.client.post(path, json={"model": "m", **body})
    [decision] = await router.decisions(1)

    assert answer.status_code == 200
    assert [asked.path for asked in endpoint.relayed()] == [path]
    assert ("prompt_tokens_estimated" in decision) is affinity
