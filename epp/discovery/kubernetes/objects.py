"""The few fields that are read of Kubernetes objects; everything else in them is passed over."""

from typing import Any

import msgspec

__all__ = [
    "Metadata", "Objective", "Pod", "Pool", "Rewrite", "RewriteMatch", "RewriteRuleSpec", "RewriteTargetSpec",
]  # fmt: skip


class Metadata(msgspec.Struct, rename="camel"):
    """Who an object is."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ContainerPort(msgspec.Struct, rename="camel"):
    """A port that a container says it listens on."""

    container_port: int


class Container(msgspec.Struct):
    """A container as it is wanted."""

    name: str
    ports: list[ContainerPort] | None = None


class PodSpec(msgspec.Struct):
    """A pod as it is wanted."""

    containers: list[Container] | None = None


class Condition(msgspec.Struct):
    """One thing that is so or not."""

    type: str
    status: str


class ContainerStatus(msgspec.Struct, rename="camel"):
    """How a container is doing."""

    name: str
    restart_count: int = 0


class PodStatus(msgspec.Struct, rename="camel"):
    """How a pod is doing."""

    phase: str = ""
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Pod(msgspec.Struct):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class TargetPort(msgspec.Struct):
    """A port of a pool."""

    number: int


class PoolSpec(msgspec.Struct, rename="camel"):
    """An InferencePool's members. `v1` has a list of ports and `matchLabels`, `v1alpha2` one port.

    `endpoint_picker_ref` (in v1alpha2 `extension_ref`) is for gateways; it may be anything here.
    """

    selector: dict[str, Any] | None = None
    target_ports: list[TargetPort] | None = None
    target_port_number: int | None = None
    app_protocol: str | None = None
    endpoint_picker_ref: Any = None
    extension_ref: Any = None


class Pool(msgspec.Struct):
    """An InferencePool."""

    metadata: Metadata
    spec: PoolSpec = msgspec.field(default_factory=PoolSpec)


class PoolRef(msgspec.Struct):
    """The pool that an object belongs to."""

    name: str = ""


class ObjectiveSpec(msgspec.Struct, rename="camel"):
    """What an InferenceObjective says."""

    priority: int | None = None
    pool_ref: PoolRef = msgspec.field(default_factory=PoolRef)


class Objective(msgspec.Struct):
    """An InferenceObjective."""

    metadata: Metadata
    spec: ObjectiveSpec = msgspec.field(default_factory=ObjectiveSpec)


class RewriteModel(msgspec.Struct):
    """How the name of a model is matched."""

    type: str | None = None
    value: str = ""


class RewriteMatch(msgspec.Struct):
    """What a rule matches."""

    model: RewriteModel | None = None


class RewriteTargetSpec(msgspec.Struct, rename="camel"):
    """A model that requests go to."""

    model_rewrite: str = ""
    weight: int | None = None


class RewriteRuleSpec(msgspec.Struct):
    """A rule of an InferenceModelRewrite; without matches it is for every request."""

    matches: list[RewriteMatch] | None = None
    targets: list[RewriteTargetSpec] | None = None


class RewriteSpec(msgspec.Struct, rename="camel"):
    """What an InferenceModelRewrite says."""

    pool_ref: PoolRef = msgspec.field(default_factory=PoolRef)
    rules: list[RewriteRuleSpec] | None = None


class Rewrite(msgspec.Struct):
    """An InferenceModelRewrite."""

    metadata: Metadata
    spec: RewriteSpec = msgspec.field(default_factory=RewriteSpec)
