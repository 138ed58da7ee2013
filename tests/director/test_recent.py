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


def test_a_moving_average_begins_with_its_first_number_and_counts_as_set():
    numbers = RecentNumbers(most=2)
    numbers.blend("a", 100.0, 0.1)
    numbers.set("b", 1.0)
    numbers.blend("a", 200.0, 0.1)
    numbers.set("c", 1.0)

    assert numbers.all() == {"a": 110.0, "c": 1.0}


def test_what_is_set_as_the_oldest_goes_first_and_takes_nobodys_place():
    numbers = RecentNumbers(most=2)
    numbers.set("a", 1.0)
    numbers.set_oldest("a", 2.0)
    numbers.set_oldest("b", 2.0)
    numbers.set_oldest("c", 2.0)

    assert list(numbers.all().items()) == [("b", 2.0), ("a", 1.0)]
