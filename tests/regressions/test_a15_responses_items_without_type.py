"""Items of the Responses API without a type were answered with 500."""

import pytest

from tests.e2e.kit import LONG_TEXT


@pytest.mark.parametrize("given", [[{"role": "user", "content": LONG_TEXT}], LONG_TEXT])
async def test_responses_input_as_text_or_as_items_without_type_is_forwarded_with_affinity(stage, given):
    endpoint, router = stage
    for _ in range(2):
        answer = await router.client.post("/v1/responses", json={"model": "m", "input": given})
        assert answer.status_code == 200
    decisions = await router.decisions(2)

    assert len(endpoint.relayed()) == 2
    assert [d["predicted_gpu"] > 0 for d in decisions] == [False, True]
