"""What the Go picker's configuration knows and this router treats otherwise: unbuilt, or meaningless here.

Nothing of it is ever ignored in silence: the unbuilt is refused with "not yet", the meaningless is noted.
Names and defaults: llm-d-router's EndpointPickerConfig, versions GIE 1.0 to llm-d-router 0.10.
"""

import re
from collections.abc import Mapping
from typing import Final

from epp.config.document import Node, Scalar, describe
from epp.config.reader import Reader, closest, listed, unknown_word_remedy

__all__ = [
    "DATA_LAYER_KEYS", "DEFAULT_PARAMETERS", "DEFAULT_PARSERS", "FLOW_CONTROL_KEYS",
    "UNBUILT_TYPES", "only_defaults", "read_feature_gates", "refuse_unbuilt", "suggest_type",
]  # fmt: skip

UNBUILT_TYPES: Final = frozenset(
    """
    agent-identity always-disagg-multimodal-decider always-disagg-pd-decider
    burst-prefix-cache-producer data-parallel-profile-handler dcgm-data-extractor dcgm-data-source
    disagg-headers-handler disagg-profile-handler
    disaggregatedset-rollout-screener edf-ordering-policy encode-filter endpoint-attribute-filter
    endpoint-attribute-scorer endpoint-notification-source fcfs-ordering-policy
    global-strict-fairness-policy header-label-affinity-scorer header-profile-handler
    k8s-notification-source latency-scorer latency-slo-admitter mm-embeddings-cache-producer
    mm-embeddings-cache-scorer multicluster-kv-cache-utilization-scorer
    multicluster-prefix-cache-scorer multicluster-queue-scorer p2p-source-producer
    pd-profile-handler precise-prefix-cache-producer precise-prefix-cache-scorer
    predicted-latency-producer predicted-latency-scorer prefill-header-handler
    prefix-based-pd-decider priority-holdback-policy
    priority-then-time-eviction-order-policy probabilistic-admitter program-aware-fairness
    request-attribute-reporter round-robin-fairness-policy session-affinity-filter
    session-id-producer sheddable-eviction-filter slo-deadline-ordering-policy
    slo-headroom-tier-filter soft-reflective-ceiling-policy static-usage-limit-policy token-producer
    tokenizer topology-affinity-filter topology-affinity-scorer topology-extractor vllmgrpc-parser
    """.split()  # noqa: SIM905 - one word a name
)

# Types, or further parameters of the catalogue's inert types, that are accepted with the Go picker's default
# values, since they ask for what happens anyway.
DEFAULT_PARAMETERS: Final[Mapping[str, Mapping[str, str]]] = {
    "metrics-data-source": {"insecureSkipVerify": "true"},
    "core-metrics-extractor": {"defaultEngine": "vllm"},
    "model-server-protocol-metrics": {},
    "models-data-source": {"scheme": "http", "path": "/v1/models", "insecureSkipVerify": "true"},
    "models-data-extractor": {},
}

DEFAULT_PARSERS: Final = frozenset(
    {"openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser"}
)

DATA_LAYER_KEYS: Final = (
    "injectDefaults", "sources", "discovery", "peerDiscovery", "crossReplicaSyncerPluginRef",
    "crossReplicaSyncInterval",
)  # fmt: skip
FLOW_CONTROL_KEYS: Final = (
    "maxBytes", "maxRequests", "defaultRequestTTL", "noEndpointRequestTTL", "defaultPriorityBand",
    "defaultNegativePriorityBand", "priorityBands", "usageLimitPolicyPluginRef", "enableEviction",
)  # fmt: skip

_GATES: Final[Mapping[str, str]] = {
    "flowControl": "",
    "dataLayer": "endpoints are always scraped",
    "prepareDataPlugins": "producers always run before scorers",
    "enableLegacyMetrics": "metrics are always exposed under the old names and the new ones",
    "haPopulateNonLeaderDatastore": "there is no leader election",
}
_GO_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def refuse_unbuilt(
    reader: Reader, path: str, node: Node | None, what: str, remedy: str = "remove it"
) -> None:
    """Report something that the Go picker has and this router does not."""
    reader.problem(path, node, f"{what}: not yet supported", remedy)


def read_feature_gates(reader: Reader, node: Node | None) -> None:
    """Check the gates; those that mean nothing here are noted."""
    seen: set[str] = set()
    for path, item in reader.items(node, "featureGates"):
        text = reader.string(item, path)
        if text is None:
            continue
        name, _, value = text.partition("=")
        if name not in _GATES:
            remedy = unknown_word_remedy(name, _GATES, "known gates")
            reader.problem(path, item, f"feature gate {name!r} is unknown", remedy)
        elif name in seen:
            reader.problem(path, item, f"feature gate {name!r} is given twice", "keep one of them")
        else:
            seen.add(name)
            _read_gate(reader, path, item, name, value if "=" in text else "true")


def _read_gate(reader: Reader, path: str, node: Node, name: str, value: str) -> None:
    if value not in _GO_BOOLEANS:
        message = f"invalid value {value!r} of feature gate {name!r}"
        reader.problem(path, node, message, f"write {name}=true or {name}=false")
    elif name != "flowControl":
        reader.note(path, f"gate {name} means nothing here: {_GATES[name]}")
    elif _GO_BOOLEANS[value]:
        refuse_unbuilt(
            reader, path, node, "feature gate 'flowControl'", "remove it or write flowControl=false"
        )


def only_defaults(reader: Reader, node: Node | None, path: str, defaults: Mapping[str, str]) -> None:
    """Accept the keys of a mapping only with the values that describe what happens anyway."""
    for key, value in reader.fields(node, path, tuple(defaults)).items():
        key_path = f"{path}.{key}"
        if _equals(value, defaults[key]):
            reader.found(key_path, value)
        else:
            refuse_unbuilt(
                reader,
                key_path,
                value,
                f"{describe(value)} as {key}",
                f"remove it or write {defaults[key]}, the default",
            )


def _equals(node: Node, default: str) -> bool:
    if not isinstance(node, Scalar):
        return False
    return node.text == default or _as_number(node.text) == _as_number(default) is not None


def _as_number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def suggest_type(word: str, built: tuple[str, ...]) -> str:
    """What to write instead of an unknown plugin type."""
    near = closest(word, (*built, *UNBUILT_TYPES))
    guess = f"did you mean {near!r}? " if near else ""
    return f"{guess}types: {listed(built)}"
