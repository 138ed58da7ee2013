"""Keeps failures of observers out of the path of requests."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from epp.director.record import RequestRecord

__all__ = ["guarded"]


def guarded(
    observers: Mapping[str, Callable[[Iterator[RequestRecord]], None]],
    failed: Callable[[str, Exception], None],
) -> Callable[[Iterable[RequestRecord]], None]:
    """All of them, one after the other, each with all records: what is in the caches is used again.

    What one raises goes to `failed` with its name, not to the caller; it goes on with the next record.
    """
    named = tuple(observers.items())

    def observe(records: Iterable[RequestRecord]) -> None:
        records = list(records)
        for name, observer in named:
            left = iter(records)
            for _ in records:  # a failure takes a record, so there are as many at most
                try:
                    observer(left)
                    break
                except Exception as error:  # noqa: BLE001 - the edge where observers end; counted and logged there
                    failed(name, error)

    return observe
