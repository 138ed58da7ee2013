"""F15 (AX p1939): two indexes. F16 (GIE p2053): units mixed. F24 (LR p2058): both caps 0 hashed nothing. F26 (PS p959).

F26: there was no way to ignore tiny matches; here it is `minMatchBlocks`, which is 0 by default.
"""

import pytest

from epp.config import load_config
from epp.errors import ConfigError
from tests.director.core import Pool

CONFIG = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-scorer
  parameters: {%s}
"""


async def test_f15_what_the_proxy_recorded_is_what_a_pick_for_others_and_a_receipt_see(stage):
    _, router = stage
    body = {"model": "m", "prompt": "a" * 4096}
    before = (await router.client.post("/pick", json=body, headers={"x-epp-path": "/v1/completions"})).json()
    await router.client.post("/v1/completions", json=body)
    [decision] = await router.decisions(1)
    after = (await router.client.post("/pick", json=body, headers={"x-epp-path": "/v1/completions"})).json()

    def hit(pick):
        return pick["receipt"]["candidates"][0]["predicted_hit_tokens"]["gpu"]

    assert (hit(before), decision["predicted_gpu"]) == (0, 0)
    assert hit(after) > 900


def problems(parameters):
    with pytest.raises(ConfigError) as caught:
        load_config(CONFIG % parameters)
    return [str(problem) for problem in caught.value.problems]


def test_f16_sizes_in_tokens_are_four_bytes_each_and_a_key_of_another_unit_is_refused():
    [view] = load_config(CONFIG % "blockSizeTokens: 16").views

    assert view.block_bytes == 64
    assert problems("blockSizeChars: 64")[0].startswith(
        "plugins[0].parameters.blockSizeChars (line 6): unknown key 'blockSizeChars'"
    )
    assert len(problems("blockSize: 64, blockSizeTokens: 32")) == 1


def test_f24_zero_is_no_cap_and_a_cap_below_one_block_is_refused():
    pool = Pool(n=1, config=CONFIG % "blockSize: 64, maxPrefixTokensToMatch: 0, maxPrefixBlocksToMatch: 0")
    exchange = pool.serve("a" * 64 * 40_000)

    assert exchange.matches["prefix-cache-scorer"].total_blocks == 40_000
    assert len(problems("blockSize: 256, maxPrefixTokensToMatch: 63")) == 1


@pytest.mark.parametrize(
    ("least", "matched", "score"), [(0, 3, 0.75), (4, 3, 0.0), (3, 3, 0.75), (4, 4, 1.0)]
)
def test_f26_a_match_of_fewer_blocks_than_the_least_scores_nothing(least, matched, score):
    pool = Pool(n=1, config=CONFIG % f"blockSize: 64, minMatchBlocks: {least}")
    pool.serve("a" * 64 * matched + "b" * 64 * (4 - matched))
    exchange, _ = pool.send("a" * 64 * 4, 2.0)
    [column] = exchange.decision.primary.columns

    assert exchange.matches["prefix-cache-scorer"].blocks(0) == matched
    assert list(column.scores) == [score]
