"""A13 (LR p1046, p1554): tools were left out of the key, so that different sets looked like the same prefix."""

from tests.director.core import Pool

MESSAGES = [
    {"role": "user", "content": "What is the weather? " * 40},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "Rain."},
]


def tools(letter):
    return [{"type": "function", "function": {"name": letter, "description": letter * 1024}}]


def matched(pool, now, **more):
    exchange = pool.open({"model": "m", "messages": MESSAGES, **more}, path="/v1/chat/completions", now=now)
    pool.director.pick(exchange, now)
    pool.answer(exchange, now=now)
    match = exchange.matches["gpu"]
    return match.blocks(0), match.total_blocks


def test_other_tools_share_no_block_and_the_same_tools_all():
    pool = Pool(n=1)
    first = matched(pool, 1.0, tools=tools("A"))
    other = matched(pool, 2.0, tools=tools("B"))
    none = matched(pool, 3.0)
    same = matched(pool, 4.0, tools=tools("A"))

    assert (first[0], other[0], none[0]) == (0, 0, 0)
    assert same[0] == same[1] == first[1] > 16
