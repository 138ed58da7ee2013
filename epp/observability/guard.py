"""Keeps failures of observers out of the path of requests."""

from collections.abc import Callable

from epp.director.record import RequestRecord

__all__ = ["guarded"]


def guarded(
    name: str,
    observer: Callable[[RequestRecord], None],
    failed: Callable[[str, Exception], None],
) -> Callable[[RequestRecord], None]:
    """`observer`, but whatever it raises goes to `failed` with its name, not to the caller."""

    def observe(record: RequestRecord) -> None:
        try:
            observer(record)
        except Exception as error:  # noqa: BLE001 - the edge where observers end; counted and logged there
            failed(name, error)

    return observe
