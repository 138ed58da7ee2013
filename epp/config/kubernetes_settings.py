"""Settings of what is read from Kubernetes; a section of `Settings`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from epp.config.leaf import rules
from epp.errors import ConfigProblem

__all__ = ["KubernetesSettings", "kubernetes_contradictions", "ports_of"]

_MAX_PORTS: Final = 8
_PORTS: Final = range(1, 65536)


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """Endpoints that Kubernetes knows: the members of an InferencePool, or the pods of a label selector."""

    pool: str | None = field(
        default=None,
        metadata=rules("InferencePool whose members are endpoints; it is followed.", absent="none"),
    )
    pool_group: str = field(
        default="inference.networking.k8s.io",
        metadata=rules(
            "API group of the pool: the first is read in version v1, the second in v1alpha2.",
            choices=("inference.networking.k8s.io", "inference.networking.x-k8s.io"),
        ),
    )
    selector: str | None = field(
        default=None,
        metadata=rules(
            "Label selector, as of kubectl get -l, whose pods are endpoints; needs no InferencePool.",
            absent="none",
        ),
    )
    ports: str = field(
        default="8000",
        metadata=rules("Ports of each pod that kubernetes.selector finds, 1 to 8, with commas between."),
    )
    scheme: str = field(
        default="http", metadata=rules("How the pods are spoken to.", choices=("http", "https"))
    )
    namespace: str | None = field(
        default=None,
        metadata=rules(
            "Namespace of pool and pods.",
            absent="the variable NAMESPACE, else that of the credentials",
        ),
    )
    kubeconfig: str | None = field(
        default=None,
        metadata=rules(
            "File with the API server's address and credentials.",
            absent="the pod's service account, else $KUBECONFIG, else ~/.kube/config",
        ),
    )
    leader_election: bool = field(
        default=False,
        metadata=rules(
            "Of several replicas only the one is ready that holds the Lease epp-NAMESPACE-POOL.llm-d.ai.",
        ),
    )
    metrics_auth: bool = field(
        default=False,
        metadata=rules(
            "Ask the API server whose the bearer token of a request for /metrics is, and whether it may get "
            "/metrics.",
            alias="--metrics-endpoint-auth",
        ),
    )
    resync_interval_s: float = field(
        default=300.0,
        metadata=rules("Longest time between two complete lists of what is watched.", minimum=1.0),
    )
    stall_timeout_s: float = field(
        default=90.0,
        metadata=rules(
            "Time without a byte on a watch after which it counts as broken; API servers send something "
            "about each minute.",
            minimum=1.0,
        ),
    )


def ports_of(text: str) -> tuple[int, ...]:
    """The ports of `kubernetes.ports`.

    Raises:
        ValueError: they are not 1 to 8 different ports.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) in _PORTS for part in parts):
        raise ValueError(f"must be ports from 1 to 65535 with commas between, not {text!r}")
    if len(set(parts)) < len(parts) or len(parts) > _MAX_PORTS:
        raise ValueError(f"must be at most {_MAX_PORTS} different ports, not {text!r}")
    return tuple(int(part) for part in parts)


def kubernetes_contradictions(values: Mapping[str, Any]) -> Iterator[ConfigProblem]:
    """Rules over more than one setting, and the ports."""
    if values["kubernetes.pool"] is not None and values["kubernetes.selector"] is not None:
        yield ConfigProblem("kubernetes.selector", "is given beside kubernetes.pool", "keep one of them")
    if values["kubernetes.metricsAuth"] and values["apiKeys.metrics"]:
        message = "is given beside apiKeys.metrics, and a request has one bearer token"
        yield ConfigProblem("kubernetes.metricsAuth", message, "keep one of them")
    try:
        ports_of(values["kubernetes.ports"])
    except ValueError as error:
        yield ConfigProblem("kubernetes.ports", str(error), "write 8000 or 8000,8001")
