"""The state of one request inside the director."""

from epp.director.types import RequestHead, Target

__all__ = ["Exchange"]


class Exchange:
    """One request; front doors read `head`, `target` and `executions` and hand it back to the director."""

    def __init__(self, head: RequestHead, arrived: float) -> None:
        self.head = head
        self.arrived = arrived
        self.target: Target | None = None
        self.executions = 0
        self.ended = False
