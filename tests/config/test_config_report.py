"""What `epp check` prints: every value with where it comes from."""

import json

import pytest

from epp.config.leaf import Secret
from epp.config.load import load_config
from epp.config.report import config_as_dict, config_as_text, settings_as_dict, settings_as_text
from epp.config.settings import Settings, leaves
from epp.scheduling.registry import NoParameters, PluginKind, PluginType, Registry
from tests.config.config_texts import HEAD, ROOT, config_of

FIXTURES = ROOT / "tests" / "fixtures" / "epp-configs"

SEED_AS_TEXT = """\
hash                                  {hash}

profile default
  scorer queue-scorer                 weight 2                      line 17
  scorer kv-cache-utilization-scorer  weight 2                      line 19
  scorer gpu-prefix-cache-scorer      weight 1                      line 21
  scorer cpu-prefix-cache-scorer      weight 1                      line 23
  picker max-score-picker                                           implied: no picker is declared
profile handler                       single-profile-handler        implied: no profile handler is declared
saturation detector                   utilization-detector          implied: no saturation detector is named

plugin queue-scorer                   queue-scorer                  line 4
plugin kv-cache-utilization-scorer    kv-cache-utilization-scorer   line 5
plugin gpu-prefix-cache-scorer        prefix-cache-scorer           line 6
  prefixMatchInfoProducerName         approx-prefix-cache-producer  implied: it names no producer
  matchLengthWeight                   0.0                           default
  matchLengthScaleTokens              8192                          default
  minMatchBlocks                      0                             default
plugin cpu-prefix-cache-scorer        prefix-cache-scorer           line 8
  prefixMatchInfoProducerName         cpu-prefix-cache-scorer       implied: it has index parameters of its own
  matchLengthWeight                   0.0                           default
  matchLengthScaleTokens              8192                          default
  minMatchBlocks                      0                             default
plugin max-score-picker               max-score-picker              implied: no picker is declared
  maxNumOfEndpoints                   1                             default
  tieBreak                            inFlight                      default
plugin single-profile-handler         single-profile-handler        implied: no profile handler is declared
plugin utilization-detector           utilization-detector          implied: no saturation detector is named
  queueDepthThreshold                 5                             default
  kvCacheUtilThreshold                0.8                           default
  headroom                            0.0                           default
  stalenessPolicy                     ignore                        default

view cpu-prefix-cache-scorer          tier cpu                      implied: autoTune is off, beside approx-prefix-cache-producer where it is on
  origin                                                            implied: plugins[3] has index parameters of its own
  block                               256 bytes
  hashed of a prompt                  2048 blocks
  autoTune                            false                         line 11
  maxPrefixTokensToMatch              131072                        default
  lruCapacityPerServer                41000                         line 12

view approx-prefix-cache-producer     tier gpu                      implied: autoTune is on
  origin                                                            implied: read by gpu-prefix-cache-scorer
  block                               256 bytes
  hashed of a prompt                  2048 blocks
  autoTune                            true                          default
  maxPrefixTokensToMatch              131072                        default
  lruCapacityPerServer                31250                         default"""


def test_the_seeds_configuration_is_printed_with_every_source():
    config = load_config((FIXTURES / "a-seed-2025-11.yaml").read_text())

    assert config_as_text(config) == SEED_AS_TEXT.format(hash=config.hash)


def test_filters_a_missing_cap_warnings_and_notes_are_printed():
    def build(*_arguments):
        raise NotImplementedError

    types = [
        ("a-filter", PluginKind.FILTER), ("max-score-picker", PluginKind.PICKER),
        ("single-profile-handler", PluginKind.HANDLER), ("utilization-detector", PluginKind.DETECTOR),
    ]  # fmt: skip
    registry = Registry([PluginType(name, kind, NoParameters, build, "") for name, kind in types])
    config = load_config(HEAD + "featureGates: [dataLayer]\nplugins:\n- type: a-filter\n", registry=registry)

    text = config_as_text(config)

    assert ["filter", "a-filter", "line", "5"] in [line.split() for line in text.splitlines()]
    assert text.endswith(
        "\n\nwarning: plugins: no scorer is declared, so every endpoint ties\n"
        "note: featureGates[0]: gate dataLayer means nothing here: endpoints are always scraped"
    )


def test_no_cap_is_said_in_words():
    text = config_as_text(
        config_of("plugins:\n- {type: prefix-cache-scorer, parameters: {maxPrefixTokensToMatch: 0}}\n")
    )

    assert "\n  hashed of a prompt           no cap" in text


def test_as_a_dictionary_it_is_json_with_value_and_source():
    config = config_of("""\
        plugins:
        - type: active-request-scorer
          parameters: {idleThreshold: 8}
        - type: prefix-cache-scorer
          parameters: {tier: cpu, blockSize: 512}
        schedulingProfiles:
        - name: default
          plugins:
          - {pluginRef: active-request-scorer, weight: 2}
          - {pluginRef: prefix-cache-scorer}
        """)

    found = json.loads(json.dumps(config_as_dict(config)))

    assert found["source"] == "configuration"
    assert found["hash"] == config.hash
    assert found["plugins"][0] == {
        "name": "active-request-scorer",
        "type": "active-request-scorer",
        "kind": "scorer",
        "from": "line 4",
        "parameters": {
            "idleThreshold": {"value": 8, "from": "line 5"},
            "maxBusyScore": {"value": 1.0, "from": "default"},
        },
    }
    assert found["profiles"] == [
        {
            "name": "default",
            "filters": [],
            "scorers": [
                {"name": "active-request-scorer", "weight": {"value": 2.0, "from": "line 11"}},
                {"name": "prefix-cache-scorer", "weight": {"value": 1.0, "from": "default"}},
            ],
            "picker": "max-score-picker",
        }
    ]
    assert found["handler"] == "single-profile-handler"
    assert found["detector"] == "utilization-detector"
    assert found["views"] == [
        {
            "producer": "prefix-cache-scorer",
            "from": "implied: plugins[1] has index parameters of its own",
            "tier": {"value": "cpu", "rule": "tier: cpu is written"},
            "blockBytes": 512,
            "maxBlocks": 1024,
            "parameters": {
                "autoTune": {"value": True, "from": "default"},
                "blockSize": {"value": 512, "from": "line 7"},
                "maxPrefixTokensToMatch": {"value": 131072, "from": "default"},
                "lruCapacityPerServer": {"value": 31250, "from": "default"},
            },
        }
    ]
    assert found["warnings"] == [
        "plugins: every view of the prefix index is of tier cpu, so nothing predicts GPU hits"
    ]
    assert found["notes"] == []


@pytest.mark.parametrize("render", [settings_as_dict, settings_as_text])
def test_settings_are_shown_with_their_source_and_without_secrets(render):
    sources = {leaf.path: "default" for leaf in leaves()} | {"adminKey": "environment EPP_ADMIN_KEY"}

    shown = render(Settings(admin_key=Secret("hunter2")), sources)

    assert "hunter2" not in str(shown)
    assert "environment EPP_ADMIN_KEY" in str(shown)


def test_settings_are_shown_as_they_would_be_written():
    sources = {leaf.path: "default" for leaf in leaves()} | {"port": "flag --port"}

    shown = settings_as_dict(Settings(port=9000), sources)

    assert shown["port"] == {"value": "9000", "from": "flag --port"}
    assert shown["upstream.firstByteTimeout"] == {"value": "600s", "from": "default"}
    assert shown["metrics.refreshInterval"] == {"value": "500ms idle, 200ms under load", "from": "default"}
    assert list(shown) == [leaf.path for leaf in leaves()]
