"""Which endpoints a pool has: pure decisions over pools and pods."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from epp.discovery.kubernetes.objects import Pod, Pool
from epp.endpoints.types import EndpointSpec

__all__ = [
    "ACTIVE_PORTS", "MAX_PORTS", "Members", "endpoints_of", "is_ready", "members_of", "picker_of",
    "port_mismatch",
]  # fmt: skip

ACTIVE_PORTS: Final = ("llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports")
MAX_PORTS: Final = 8
_PORTS: Final = range(1, 65536)


@dataclass(frozen=True, slots=True)
class Members:
    """Which pods belong to a pool, as a label selector, and on which ports each of them serves."""

    selector: str
    ports: tuple[int, ...]


def members_of(pool: Pool) -> Members:
    """What a pool says of its members, in either version.

    Raises:
        ValueError: the pool cannot be followed; says which field, and why.
    """
    spec = pool.spec
    if spec.app_protocol not in {None, "", "http"}:
        raise ValueError(f"spec.appProtocol is {spec.app_protocol!r}; only http is spoken")
    ports = [port.number for port in spec.target_ports or ()]
    if not ports and spec.target_port_number is not None:
        ports = [spec.target_port_number]
    return Members(_selector(spec.selector or {}), _checked(ports))


def _checked(ports: Sequence[int]) -> tuple[int, ...]:
    if not 1 <= len(ports) <= MAX_PORTS:
        raise ValueError(f"spec.targetPorts has {len(ports)} ports; it needs 1 to {MAX_PORTS}")
    if len(set(ports)) < len(ports) or not all(port in _PORTS for port in ports):
        raise ValueError(f"spec.targetPorts are {list(ports)}; they must differ and be from 1 to 65535")
    return tuple(ports)


def _selector(given: dict[str, object]) -> str:
    labels = given.get("matchLabels", given)
    if not isinstance(labels, dict) or not labels:
        raise ValueError("spec.selector selects nothing; give it matchLabels")
    if not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("spec.selector has a value that is no text")
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def is_ready(pod: Pod) -> bool:
    """Whether requests may be sent there: it has an address, runs, is ready and is not being deleted."""
    status = pod.status
    if pod.metadata.deletion_timestamp is not None or not status.pod_ip or status.phase != "Running":
        return False
    return any(c.type == "Ready" and c.status == "True" for c in status.conditions or ())


def endpoints_of(pod: Pod, ports: Sequence[int], scheme: str = "http") -> tuple[EndpointSpec, ...]:
    """One endpoint a port, none while the pod is not ready.

    With several ports each is a data-parallel rank and is named so. The annotation `active-ports` limits
    them. A container that was restarted in place is another incarnation of the endpoints on its ports.

    Raises:
        ValueError: the pod's address or annotation cannot be read.
    """
    if not is_ready(pod):
        return ()
    host = str(ipaddress.ip_address(pod.status.pod_ip or ""))
    active = _active_ports(pod)
    meta = pod.metadata
    return tuple(
        EndpointSpec(
            scheme,
            host,
            port,
            meta.labels or {},
            uid=_incarnation(pod, port),
            name=meta.name if len(ports) == 1 else f"{meta.name}-rank-{rank}",
            namespace=meta.namespace,
        )
        for rank, port in enumerate(ports)
        if active is None or port in active
    )


def _active_ports(pod: Pod) -> frozenset[int] | None:
    annotations = pod.metadata.annotations or {}
    text = next((annotations[key] for key in ACTIVE_PORTS if key in annotations), None)
    if text is None:
        return None
    try:
        return frozenset(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(f"annotation active-ports is {text!r}; write ports with commas between") from None


def _incarnation(pod: Pod, port: int) -> str:
    """The pod's uid, with the restarts of the container that declares `port` where there were any."""
    serving = {
        container.name
        for container in pod.spec.containers or ()
        if any(declared.container_port == port for declared in container.ports or ())
    }
    statuses = pod.status.container_statuses or ()
    restarts = sum(status.restart_count for status in statuses if status.name in serving)
    return f"{pod.metadata.uid}+{restarts}" if restarts else pod.metadata.uid


def picker_of(pool: Pool) -> str | None:
    """Whom gateways ask for this pool, and what they do without an answer; None where nobody is named."""
    ref = pool.spec.endpoint_picker_ref or pool.spec.extension_ref
    if not isinstance(ref, dict) or not ref.get("name"):
        return None
    port = ref.get("port")
    number = port.get("number") if isinstance(port, dict) else ref.get("portNumber")
    mode = ref.get("failureMode") or "FailClose"  # the API's default
    without = "spread requests themselves" if mode == "FailOpen" else "refuse requests"
    at = f":{number}" if number else ""
    return f"gateways ask Service {ref['name']}{at} and {without} while it does not answer ({mode})"


def port_mismatch(pod: Pod, ports: Sequence[int]) -> str | None:
    """What to warn of where containers declare ports, but not the pool's."""
    declared = {port.container_port for c in pod.spec.containers or () for port in c.ports or ()}
    missing = [port for port in ports if port not in declared]
    if not declared or not missing:
        return None
    listed = ", ".join(str(port) for port in sorted(declared))
    return f"no container of the pool's pods declares port {missing[0]} (they declare {listed})"
