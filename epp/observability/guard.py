"""Keeps failures of observers out of the path of requests."""

from collections.abc import Callable, Mapping

from epp.director.record import RequestRecord

__all__ = ["guarded"]


def guarded(
    observers: Mapping[str, Callable[[RequestRecord], None]], failed: Callable[[str, Exception], None]
) -> Callable[[RequestRecord], None]:
    """All of them, one after the other; what one raises goes to `failed` with its name, not to the caller."""
    named = tuple(observers.items())

    def observe(record: RequestRecord) -> None:
        for name, observer in named:
            try:
                observer(record)
            except Exception as error:  # noqa: BLE001 - the edge where observers end; counted and logged there
                failed(name, error)

    return observe
