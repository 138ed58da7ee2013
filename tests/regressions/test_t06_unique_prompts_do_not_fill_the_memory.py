"""T6: 6,000 unique prompts of 4 KB, and memory grew without end."""

from tests.director.core import Pool

CONFIG = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: approx-prefix-cache-producer, name: gpu, parameters: {tier: gpu, autoTune: false, lruCapacityPerServer: 2000}}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: gpu}}
- {type: active-request-scorer}
"""


def test_the_index_holds_its_capacity_and_no_more():
    pool = Pool(n=2, config=CONFIG)
    held = []
    for number in range(6000):
        pool.serve(f"{number:08}" * 512, float(number))
        pool.records.clear()
        if number % 1000 == 999:
            held.append([pool.index.blocks(0, slot) for slot in range(2)])

    # 2,000 engine blocks of 16 tokens are 500 blocks of 256 bytes, 31 prompts of 16 blocks, at each endpoint.
    assert all(400 < blocks <= 500 for two in held for blocks in two)
    assert pool.index.nodes() <= 2 * 500
    pool.index.check_integrity()
