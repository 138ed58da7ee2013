"""The ledger counts exactly what is in flight, and never what belongs to a slot's earlier owner."""

from hypothesis import given
from hypothesis import strategies as st

from epp.endpoints.ledger import Ledger


def ledger_with(slots: int) -> Ledger:
    ledger = Ledger()
    for slot in range(slots):
        ledger.reset(slot)
    return ledger


def test_columns_grow_to_the_highest_slot_with_zeros():
    ledger = Ledger()

    ledger.ensure(2)
    ledger.ensure(1)

    assert (ledger.requests, ledger.tokens, ledger.last_picked) == ([0, 0, 0], [0, 0, 0], [0, 0, 0])


def test_take_counts_a_request_and_its_uncached_tokens():
    ledger = ledger_with(2)

    ledger.take(1, 700)
    ledger.take(1, 30)

    assert ledger.requests == [0, 2]
    assert ledger.tokens == [0, 730]


def test_first_byte_releases_the_tokens_and_the_end_releases_the_request():
    ledger = ledger_with(1)
    epoch = ledger.take(0, 700)

    ledger.release_tokens(0, 700, epoch)
    assert (ledger.requests, ledger.tokens) == ([1], [0])

    ledger.release_request(0, epoch)
    assert (ledger.requests, ledger.tokens) == ([0], [0])


def test_last_picked_holds_the_number_of_the_pick():
    ledger = ledger_with(3)

    for slot in (2, 0, 2):
        ledger.take(slot, 0)

    assert ledger.last_picked == [2, 0, 3]


def test_a_reset_slot_starts_at_zero_and_ignores_late_releases():
    ledger = ledger_with(1)
    old = ledger.take(0, 100)
    ledger.reset(0)
    new = ledger.take(0, 5)

    ledger.release_tokens(0, 100, old)
    ledger.release_request(0, old)

    assert (ledger.requests, ledger.tokens) == ([1], [5])
    ledger.release_tokens(0, 5, new)
    ledger.release_request(0, new)
    assert (ledger.requests, ledger.tokens) == ([0], [0])


def test_total_sums_over_all_endpoints():
    ledger = ledger_with(3)
    for slot in (0, 2, 2):
        ledger.take(slot, 1)

    assert ledger.total() == 3


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["take", "first byte", "end", "reset"])), max_size=60
    )
)
def test_counts_equal_those_of_a_model_that_remembers_every_request(steps):
    ledger = ledger_with(3)
    open_requests: list[dict] = []

    for slot, step in steps:
        mine = [r for r in open_requests if r["slot"] == slot]
        if step == "take":
            open_requests.append({"slot": slot, "tokens": 10, "epoch": ledger.take(slot, 10), "lost": False})
        elif step == "first byte" and mine:
            ledger.release_tokens(slot, mine[0]["tokens"], mine[0]["epoch"])
            mine[0]["tokens"] = 0
        elif step == "end" and mine:
            ledger.release_tokens(slot, mine[0]["tokens"], mine[0]["epoch"])
            ledger.release_request(slot, mine[0]["epoch"])
            open_requests.remove(mine[0])
        elif step == "reset":
            ledger.reset(slot)
            for request in mine:
                request["lost"] = True

    counted = [r for r in open_requests if not r["lost"]]
    assert ledger.requests == [sum(r["slot"] == s for r in counted) for s in range(3)]
    assert ledger.tokens == [sum(r["tokens"] for r in counted if r["slot"] == s) for s in range(3)]
