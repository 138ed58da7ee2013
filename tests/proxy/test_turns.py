"""Steps that many requests take together."""

import asyncio

from epp.proxy.turns import Turns, one_by_one


async def turn():
    await asyncio.sleep(0)


async def test_items_are_taken_in_order_after_what_the_loop_is_doing():
    done = []
    turns = Turns(one_by_one(done.append))

    turns.add("first")
    turns.add("second")
    before = list(done)
    await turn()

    assert before == []
    assert done == ["first", "second"]


async def test_a_turn_takes_so_many_and_lets_others_have_theirs_before_the_rest():
    done = []
    turns = Turns(one_by_one(done.append), at_once=2)

    for number in range(5):
        turns.add(number)
    asyncio.get_running_loop().call_soon(done.append, "another")
    for _ in range(3):
        await turn()

    assert done == [0, 1, "another", 2, 3, 4]


async def test_an_item_added_by_a_step_has_its_turn_too():
    done = []

    def step(item):
        done.append(item)
        if item == "first":
            turns.add("second")

    turns = Turns(one_by_one(step))
    turns.add("first")
    await turn()
    await turn()

    assert done == ["first", "second"]


async def test_a_step_that_raises_is_reported_and_the_others_are_taken():
    done, reported = [], []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))

    def step(item):
        if item == "bad":
            raise ValueError(item)
        done.append(item)

    turns = Turns(one_by_one(step))
    for item in ("bad", "good", "better"):
        turns.add(item)
    await turn()
    await turn()

    assert [str(context["exception"]) for context in reported] == ["bad"]
    assert done == ["good", "better"]


async def test_flushing_takes_everything_at_once_and_nothing_twice():
    done = []
    turns = Turns(one_by_one(done.append), at_once=1)
    turns.add("first")
    turns.add("second")

    turns.flush()
    flushed = list(done)
    turns.add("third")
    await turn()
    await turn()

    assert flushed == ["first", "second"]
    assert done == ["first", "second", "third"]


async def test_a_step_may_take_items_together_and_what_it_leaves_has_another_turn():
    taken, reported = [], []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))

    def step(items):
        if not taken:
            taken.append([next(items), next(items)])
            raise ValueError("no more")
        taken.append(list(items))

    turns = Turns(step, at_once=3)
    for number in range(5):
        turns.add(number)
    await turn()
    await turn()

    assert taken == [[0, 1], [2, 3, 4]]
    assert len(reported) == 1
