"""A03 (GIE p2724, LR p860): a list of prompts was refused, or put together into one text."""

from tests.director.core import Pool


def blocks(letters):
    return "".join(letter * 16 for letter in letters)


def test_blocks_are_counted_for_each_element_and_none_spans_two():
    pool = Pool(n=1)
    pool.serve([blocks("aaaabbbb"), blocks("ccccdddd")], 1.0)
    again, _ = pool.send([blocks("aaaabbbb"), blocks("ccccdddd")], 2.0)
    second, _ = pool.send([blocks("ccccdddd")], 3.0)
    joined, _ = pool.send(blocks("aaaabbbbccccdddd"), 4.0)
    mixed, _ = pool.send([blocks("bbbbcccc")], 5.0)

    def seen(exchange):
        match = exchange.matches["gpu"]
        return match.blocks(0), match.total_blocks

    assert [seen(e) for e in (again, second, joined, mixed)] == [(4, 4), (2, 2), (2, 4), (0, 2)]


async def test_a_list_of_prompts_is_relayed_as_it_came(stage):
    endpoint, router = stage
    body = b'{"model":"m","prompt":["aaaabbbb","ccccdddd"]}'
    answer = await router.client.post(
        "/v1/completions", content=body, headers={"content-type": "application/json"}
    )

    assert answer.status_code == 200
    assert [asked.body for asked in endpoint.relayed()] == [body]
