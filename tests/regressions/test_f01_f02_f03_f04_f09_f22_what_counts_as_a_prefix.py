"""What was taken for the same prefix and is not, or the other way round.

F01 (AX i917): a phrase in the middle. F02 (GIE p1341): the model's name as a block. F03 (GIE p1646, LR p1494): cache_salt.
F04 (KVC p243): adapters. F09 (LR p2400): blocks behind a gap. F22 (PS p1055): the first match instead of the longest.
"""

from epp.endpoints.types import ModelInfo
from epp.prefix import PrefixIndex, chain_seed, drain, hash_chain
from tests.director.core import Pool

E1, E2 = 0b01, 0b10


def chain(text, *seed):
    return drain(hash_chain(text.encode(), chain_seed(*seed), 4, None))


def index(*served):
    made = PrefixIndex()
    made.add_view()
    for slot, *what in served:
        made.touch(0, slot, chain(*what), 4)
    made.check_integrity()
    return made


def test_f01_a_phrase_in_the_middle_is_no_prefix():
    held = index((0, "What a Good Day!!!!"), (1, "Not a bad day today!"))
    asked = chain("Not a bad day today! What a Good Day!!!!")

    assert len(asked) == 10
    assert held.match(asked) == [[(E2, 5)]]


def test_f02_the_name_of_the_model_is_no_block():
    held = index((0, "aaaabbbb", "model"))
    other, half = chain("zzzzyyyy", "model"), chain("aaaacccc", "model")

    assert (len(other), held.match(other)) == (2, [[]])
    assert (len(half), held.match(half)) == (2, [[(E1, 1)]])


def matched(pool, now, **more):
    exchange, target = pool.send("a" * 640, now, **more)
    pool.answer(exchange, now=now)
    return exchange.matches["gpu"].blocks(target.slot)


def test_f03_another_salt_shares_nothing_and_the_same_everything():
    pool = Pool(n=1)

    assert [matched(pool, float(now), cache_salt=salt) for now, salt in enumerate("ABA")] == [0, 0, 10]


def test_f04_adapters_share_nothing_with_each_other_or_with_their_base():
    pool = Pool(n=1)
    e = pool.endpoint(1)
    adapters = (ModelInfo("m"), *(ModelInfo(name, parent="m") for name in ("lora-1", "lora-2")))
    pool.core.upkeep.on_models(e.address, e.incarnation, adapters, 0.0)
    names = ("m", "lora-1", "lora-2", "lora-1")

    assert [matched(pool, float(now), model=name) for now, name in enumerate(names)] == [0, 0, 0, 10]


def test_f09_what_is_behind_a_gap_is_no_hit():
    held = index((0, "aaaa"))
    held.touch(0, 0, [*chain("zzzz"), *chain("aaaabbbbcccc")[2:]], 4)

    assert held.match(chain("aaaabbbbcccc")) == [[(E1, 1)]]


def test_f22_the_longest_match_wins_in_whatever_order():
    pool = Pool(n=2)
    short, long = "a" * 64 * 16, "a" * 64 * 64
    for i, text in ((1, short), (2, long)):
        exchange = pool.open({"model": "m", "prompt": text})
        pool.director.schedule(exchange, 1.0)
        pool.director.commit(exchange, exchange.decision, pool.endpoint(i))
    exchange, target = pool.send("a" * 64 * 64, 2.0)

    assert target.address == "10.0.0.2:8000"
    assert [exchange.matches["gpu"].blocks(slot) for slot in (0, 1)] == [16, 64]
