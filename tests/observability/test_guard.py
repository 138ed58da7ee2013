"""A failing observer is counted, and the request goes on."""

from epp.observability.guard import guarded
from tests.observability.builders import World


def test_records_pass_through():
    record = World().record()
    seen, failures = [], []

    guarded({"metrics": seen.append}, lambda *failure: failures.append(failure))(record)

    assert seen == [record]
    assert failures == []


def test_a_failure_is_reported_with_the_observers_name():
    failures = []
    error = KeyError("label")

    def observe(_record) -> None:
        raise error

    record = World().record()
    seen = []
    observers = {"metrics": observe, "access_log": seen.append}
    guarded(observers, lambda *failure: failures.append(failure))(record)

    assert failures == [("metrics", error)]
    assert seen == [record]
