"""Numbers by name, bounded."""

from epp.director.recent import RecentNumbers


def test_a_name_has_the_number_that_was_set_last():
    numbers = RecentNumbers()
    numbers.set("a", 1.0)
    numbers.set("a", 2.0)

    assert (numbers.get("a"), numbers.get("b"), numbers.all()) == (2.0, None, {"a": 2.0})


def test_of_too_many_the_one_that_was_set_longest_ago_is_forgotten():
    numbers = RecentNumbers(most=2)
    for name in ("a", "b", "a", "c"):
        numbers.set(name, 1.0)

    assert sorted(numbers.all()) == ["a", "c"]


def test_by_default_there_are_1024():
    numbers = RecentNumbers()
    for number in range(2000):
        numbers.set(str(number), 1.0)

    assert len(numbers.all()) == 1024
