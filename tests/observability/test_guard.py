"""A failing observer is counted, and the request goes on."""

from epp.observability.guard import guarded
from tests.observability.builders import World


def test_each_observer_gets_all_records_before_the_next_observer_does():
    one, two = World().record(request_id="1"), World().record(request_id="2")
    seen, failures = [], []

    def noting(name):
        return lambda records: seen.extend((name, record) for record in records)

    observers = {"metrics": noting("metrics"), "access_log": noting("access_log")}
    guarded(observers, lambda *failure: failures.append(failure))(iter([one, two]))

    assert seen == [("metrics", one), ("metrics", two), ("access_log", one), ("access_log", two)]
    assert failures == []


def test_a_failure_is_reported_with_the_observers_name():
    failures = []
    error = KeyError("label")

    def observe(_records) -> None:
        raise error

    record = World().record()
    seen = []
    observers = {"metrics": observe, "access_log": seen.extend}
    guarded(observers, lambda *failure: failures.append(failure))([record])

    assert failures == [("metrics", error)]
    assert seen == [record]


def test_a_failure_costs_the_observer_one_record():
    failures, seen = [], []
    records = [World().record(request_id=name) for name in ("1", "bad", "2", "bad")]

    def observe(left) -> None:
        for record in left:
            if record.request_id == "bad":
                raise ValueError(record.request_id)
            seen.append(record.request_id)

    guarded({"metrics": observe}, lambda name, error: failures.append((name, str(error))))(records)

    assert seen == ["1", "2"]
    assert failures == [("metrics", "bad"), ("metrics", "bad")]


def test_an_observer_that_fails_without_taking_a_record_is_left_after_as_many_failures():
    failures = []

    def observe(_records) -> None:
        raise ValueError

    guarded({"metrics": observe}, lambda name, _error: failures.append(name))([World().record()] * 3)

    assert failures == ["metrics"] * 3
