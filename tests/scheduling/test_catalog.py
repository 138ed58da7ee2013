"""The catalog: what exists, with which parameters and defaults."""

import pytest

from epp.config.catalog import default_registry
from epp.scheduling.producers.approx_prefix_cache import ApproxPrefixCacheProducer, PrefixIndexParameters
from epp.scheduling.registry import NoParameters, PluginKind, PluginType, Registry, params_of
from tests.scheduling.builders import context

INDEX = {
    "autoTune": True,
    "blockSize": None,
    "blockSizeTokens": None,
    "maxPrefixBlocksToMatch": None,
    "maxPrefixTokensToMatch": 131072,
    "lruCapacityPerServer": 31250,
    "tier": None,
}

TYPES = {
    "label-selector-filter": ("filter", {"matchLabels": None, "matchExpressions": ()}),
    "by-label-selector": ("filter", {"matchLabels": None, "matchExpressions": ()}),
    "by-label": ("filter", {"label": "", "validValues": (), "allowsNoLabel": False}),
    "decode-filter": ("filter", {}),
    "prefill-filter": ("filter", {}),
    "header-based-testing-filter": ("filter", {}),
    "utilization-filter": ("filter", {"conditions": (), "fallbackOnEmpty": False}),
    "load-aware-scorer": ("scorer", {"threshold": 128}),
    "token-load-scorer": ("scorer", {"queueThresholdTokens": 4194304, "inFlightLoadProducerName": None}),
    "ttft-cost-scorer": ("scorer", {"decodeHarm": 0.25, "memoryPrice": 1.0, "maxWait": 30.0}),
    "lmetric-scorer": ("scorer", {}),
    "kv-overlap-cost-scorer": ("scorer", {"overlapWeight": 1.0}),
    "cache-aware-scorer": (
        "scorer",
        {"cacheThreshold": 0.3, "balanceAbsThreshold": 64, "balanceRelThreshold": 1.5},
    ),
    "consistent-hash-scorer": ("scorer", {"loadFactor": 1.25}),
    "prefix-cache-affinity-filter": (
        "filter",
        {
            "affinityThreshold": 0.8,
            "maxTTFTPenaltyMs": 18000.0,
            "explorationProbability": 0.0,
            "ttftSource": "prefillThroughput",
            "peakPrefillThroughput": 15928.0,
        },
    ),
    "lora-affinity-scorer": ("scorer", {}),
    "session-affinity-scorer": (
        "scorer",
        {
            "strategy": "encoded_endpoint_header",
            "encodedEndpointHeaderConfig": None,
            "sessionIdConfig": None,
        },
    ),
    "context-length-aware": (
        "scorer",
        {"label": "llm-d.ai/context-length-range", "enableFiltering": False},
    ),
    "utilization-detector": (
        "saturation detector",
        {
            "queueDepthThreshold": 5,
            "kvCacheUtilThreshold": 0.8,
            "metricsStalenessThreshold": None,
            "headroom": 0.0,
            "stalenessPolicy": "ignore",
        },
    ),
    "concurrency-detector": (
        "saturation detector",
        {
            "maxConcurrency": 100,
            "maxTokenConcurrency": 1000000,
            "concurrencyMode": "requests",
            "headroom": 0.0,
            "inFlightLoadProducerName": None,
        },
    ),
    "queue-scorer": ("scorer", {}),
    "running-requests-size-scorer": ("scorer", {}),
    "kv-cache-utilization-scorer": ("scorer", {}),
    "prefix-cache-scorer": (
        "scorer",
        {
            **INDEX,
            "prefixMatchInfoProducerName": None,
            "matchLengthWeight": 0.0,
            "matchLengthScaleTokens": 8192,
            "minMatchBlocks": 0,
        },
    ),
    "active-request-scorer": (
        "scorer",
        {"idleThreshold": 0, "maxBusyScore": 1.0, "requestTimeout": None, "inFlightLoadProducerName": None},
    ),
    "no-hit-lru-scorer": ("scorer", {"lruSize": 1024, "prefixMatchInfoProducerName": None}),
    "max-score-picker": ("picker", {"maxNumOfEndpoints": 1, "tieBreak": "inFlight"}),
    "random-picker": ("picker", {"maxNumOfEndpoints": 1}),
    "weighted-random-picker": ("picker", {"maxNumOfEndpoints": 1}),
    "single-profile-handler": ("profile handler", {}),
    "approx-prefix-cache-producer": ("producer", INDEX),
    "file-discovery": ("discovery", {"path": None, "watchFile": False}),
    "metrics-data-source": ("inert", {"scheme": None, "path": None}),
    "core-metrics-extractor": ("inert", {}),
    "openai-parser": ("inert", {}),
    "anthropic-parser": ("inert", {}),
    "vllmhttp-parser": ("inert", {}),
    "passthrough-parser": ("inert", {}),
    "inflight-load-producer": ("inert", {"prefixMatchInfoProducerName": None}),
    "destination-endpoint-served-verifier": ("answer of a gateway", {}),
}


def test_the_catalog_has_these_types():
    assert {t.type: t.kind.value for t in default_registry().types()} == {
        name: kind for name, (kind, _) in TYPES.items()
    }


@pytest.mark.parametrize("name", sorted(TYPES))
def test_parameters_and_their_defaults(name):
    found = default_registry().get(name)

    assert {key: p.default for key, (_, p) in params_of(found.parameters).items()} == TYPES[name][1]


@pytest.mark.parametrize("name", sorted(TYPES))
def test_defaults_are_inside_their_own_bounds(name):
    for _, p in params_of(default_registry().get(name).parameters).values():
        if p.default is None:
            continue
        assert p.minimum is None or p.default >= p.minimum
        assert p.above is None or p.default > p.above
        assert p.maximum is None or p.default <= p.maximum
        assert not p.choices or p.default in p.choices
        assert p.doc


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_type_builds_from_its_defaults(name):
    found = default_registry().get(name)

    plugin = found.build("mine", found.parameters(), context())

    if found.kind in (PluginKind.INERT, PluginKind.DISCOVERY, PluginKind.RESPONSE):
        assert plugin is None
    else:
        assert (plugin.name, plugin.type) == ("mine", name)
    assert found.doc


def test_only_the_older_names_of_filters_are_deprecated():
    assert {t.type for t in default_registry().types() if t.deprecated} == {"by-label", "by-label-selector"}


def test_sizes_that_must_be_positive_refuse_zero_and_the_caps_do_not():
    params = params_of(PrefixIndexParameters)

    assert {key for key, (_, p) in params.items() if p.above == 0} == {
        "blockSize",
        "blockSizeTokens",
        "lruCapacityPerServer",
    }
    assert {key for key, (_, p) in params.items() if p.minimum == 0} == {
        "maxPrefixBlocksToMatch",
        "maxPrefixTokensToMatch",
    }


def test_a_producer_keeps_its_parameters_for_composition():
    parameters = PrefixIndexParameters(auto_tune=False, lru_capacity_blocks=41000)

    producer = ApproxPrefixCacheProducer.build("cpu", parameters, context())

    assert producer.parameters is parameters


def test_an_unknown_type_is_none():
    assert default_registry().get("lottery-scorer") is None


def test_a_type_can_be_registered_only_once():
    made = PluginType("x", PluginKind.SCORER, NoParameters, lambda *_: None, "")

    with pytest.raises(ValueError, match="registered twice"):
        Registry([made, made])
