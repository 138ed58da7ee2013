"""From pods to endpoints, again and again: what has not changed is not made anew."""

from collections.abc import Callable, Mapping, Sequence

from epp.discovery.kubernetes.members import Members, endpoints_of, port_mismatch
from epp.discovery.kubernetes.objects import Pod
from epp.discovery.source import Sink
from epp.endpoints.types import EndpointSpec

__all__ = ["Joiner", "Teller"]


class Joiner:
    """Makes the endpoints of pods; `on_remark` hears of each pod that cannot be used, and why."""

    def __init__(self, scheme: str, on_remark: Callable[[str], None]) -> None:
        self._scheme = scheme
        self._on_remark = on_remark
        self._known: dict[str, tuple[Pod, Members, tuple[EndpointSpec, ...]]] = {}

    def endpoints(self, pods: Mapping[str, Pod], members: Members) -> tuple[EndpointSpec, ...]:
        """All endpoints, in the order of the pods' names."""
        known = {name: self._of(name, pods[name], members) for name in sorted(pods)}
        self._known = known
        return tuple(spec for _, _, specs in known.values() for spec in specs)

    def _of(self, name: str, pod: Pod, members: Members) -> tuple[Pod, Members, tuple[EndpointSpec, ...]]:
        before = self._known.get(name)
        if before is not None and before[0] is pod and before[1] == members:
            return before
        return pod, members, self._made(pod, members)

    def _made(self, pod: Pod, members: Members) -> tuple[EndpointSpec, ...]:
        try:
            specs = endpoints_of(pod, members.ports, self._scheme)
        except ValueError as error:
            self._on_remark(f"pod {pod.metadata.name} is not used: {error}")
            return ()
        mismatch = port_mismatch(pod, members.ports) if specs else None
        if mismatch is not None:
            self._on_remark(mismatch)
        return specs


class Teller:
    """Tells a sink what is news to it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._specs: Sequence[EndpointSpec] | None = None
        self._failure: tuple[str | None, int] = (None, 0)

    def tell(self, specs: Sequence[EndpointSpec] | None, problem: str | None, failures: int) -> None:
        """`specs`: None while they are not known; then what was told last holds.

        A `problem` is told when it is another one, or when there are more `failures` than before.
        """
        recovered = self._failure[0] is not None and problem is None
        if specs is not None and (specs != self._specs or recovered):
            self._specs = specs
            self._sink.publish(specs)
            self._failure = (None, failures)  # what is published works
        if problem is not None and (problem, failures) != self._failure:
            self._sink.fail(problem)
        self._failure = (problem, failures)
