"""Sections and gates beside plugins and profiles: built, meaningless here, or not yet supported."""

import pytest

from tests.config.config_texts import config_of, problems_of

SCORER = "plugins:\n- type: queue-scorer\n"


@pytest.mark.parametrize(
    ("gate", "note"),
    [
        ("dataLayer", "featureGates[0]: gate dataLayer means nothing here: endpoints are always scraped"),
        (
            "prepareDataPlugins=true",
            "featureGates[0]: gate prepareDataPlugins means nothing here: producers always run before scorers",
        ),
        (
            "enableLegacyMetrics=F",
            "featureGates[0]: gate enableLegacyMetrics means nothing here: metrics are always exposed under the old names and the new ones",
        ),
        (
            "haPopulateNonLeaderDatastore=0",
            "featureGates[0]: gate haPopulateNonLeaderDatastore means nothing here: there is no leader election",
        ),
    ],
)
def test_a_gate_without_a_meaning_is_noted(gate, note):
    assert config_of(f"featureGates: [{gate}]\n{SCORER}").notes == (note,)


def test_flow_control_that_is_off_is_fine():
    assert config_of(f"featureGates: [flowControl=false]\n{SCORER}").notes == ()


@pytest.mark.parametrize("gate", ["flowControl", "flowControl=true", "flowControl=1"])
def test_flow_control_that_is_on_is_refused(gate):
    assert problems_of(f"featureGates: [{gate}]\n{SCORER}") == [
        "featureGates[0] (line 3): feature gate 'flowControl': not yet supported; remove it or write flowControl=false"
    ]


def test_a_gate_that_is_given_twice_is_refused():
    assert problems_of(f"featureGates: [dataLayer, dataLayer=false]\n{SCORER}") == [
        "featureGates[1] (line 3): feature gate 'dataLayer' is given twice; keep one of them"
    ]


def test_a_gate_is_a_string():
    assert problems_of(f"featureGates: [{{flowControl: false}}]\n{SCORER}") == [
        "featureGates[0] (line 3): must be a string, not a mapping"
    ]


@pytest.mark.parametrize("section", ["flowControl:", "flowControl: {}", "flowControl: {maxBytes: null}"])
def test_a_flow_control_section_without_content_is_fine(section):
    assert config_of(f"{section}\n{SCORER}").notes == ()


def test_an_unknown_key_of_flow_control_is_refused_as_such():
    (problem,) = problems_of(f"flowControl: {{maxByte: 1}}\n{SCORER}")

    assert problem.startswith("flowControl.maxByte (line 3): unknown key 'maxByte'; did you mean 'maxBytes'?")


@pytest.mark.parametrize("section", ["dataLayer", "data"])
def test_sources_and_extractors_without_parameters_are_noted(section):
    config = config_of(f"""\
        plugins:
        - type: queue-scorer
        - type: metrics-data-source
        - type: core-metrics-extractor
        {section}:
          injectDefaults: false
          sources:
          - pluginRef: metrics-data-source
            extractors:
            - pluginRef: core-metrics-extractor
        """)

    assert config.notes[-1] == f"{section}.injectDefaults: means nothing here: endpoints are always scraped"
    assert [note.partition(": ")[0] for note in config.notes[:2]] == ["plugins[1].type", "plugins[2].type"]
    assert [plugin.name for plugin in config.plugins] == [
        "queue-scorer",
        "max-score-picker",
        "single-profile-handler",
        "utilization-detector",
    ]


def test_the_values_of_the_charts_are_accepted():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: metrics-data-source
          parameters: {scheme: "http", path: "/metrics", insecureSkipVerify: true}
        - type: core-metrics-extractor
          parameters: {defaultEngine: "vllm"}
        - type: openai-parser
        requestHandler:
          parsers:
          - pluginRef: openai-parser
        """)

    assert config.provenance["plugins[1].parameters.insecureSkipVerify"] == "line 6"


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (
            "{type: metrics-data-source, parameters: {insecureSkipVerify: false}}",
            "plugins[1].parameters.insecureSkipVerify (line 5): false as insecureSkipVerify: not yet supported; remove it or write true, the default",
        ),
        (
            "{type: core-metrics-extractor, parameters: {defaultEngine: triton}}",
            "plugins[1].parameters.defaultEngine (line 5): triton as defaultEngine: not yet supported; remove it or write vllm, the default",
        ),
        (
            "{type: core-metrics-extractor, parameters: {engineConfigs: []}}",
            "plugins[1].parameters.engineConfigs (line 5): unknown key 'engineConfigs'; known keys here: none",
        ),
        (
            "{type: metrics-data-source, parameters: {insecureSkipVerify: []}}",
            "plugins[1].parameters.insecureSkipVerify (line 5): a list as insecureSkipVerify: not yet supported; remove it or write true, the default",
        ),
        (
            "{type: metrics-data-source, parameters: [a]}",
            "plugins[1].parameters (line 5): must be a mapping, not a list",
        ),
    ],
)
def test_other_parameters_of_types_without_a_meaning_are_refused(plugin, problem):
    assert problems_of(f"plugins:\n- type: queue-scorer\n- {plugin}\n") == [problem]


def test_two_names_of_the_data_layer_are_one_too_many():
    assert problems_of(f"data: {{}}\ndataLayer: {{}}\n{SCORER}") == [
        "data (line 3): is the old name of dataLayer, which is given too; keep dataLayer"
    ]


@pytest.mark.parametrize(
    "key", ["discovery", "peerDiscovery", "crossReplicaSyncerPluginRef", "crossReplicaSyncInterval"]
)
def test_what_the_data_layer_cannot_do_yet_is_refused(key):
    assert problems_of(f"dataLayer: {{{key}: x}}\n{SCORER}") == [
        f"dataLayer.{key} (line 3): {key}: not yet supported; remove it"
    ]


@pytest.mark.parametrize(
    "parser", ["openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser"]
)
def test_the_known_parsers_need_not_be_declared(parser):
    config = config_of(f"requestHandler: {{parsers: [{{pluginRef: {parser}}}]}}\n{SCORER}")

    assert config.notes == (
        "requestHandler.parsers[0]: means nothing here: the parser is chosen by the request's path",
    )


def test_the_parser_of_gie_1_5_is_known():
    assert config_of(f"parser: {{pluginRef: openai-parser}}\n{SCORER}").notes == (
        "parser: means nothing here: the parser is chosen by the request's path",
    )


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        (
            "{}",
            "requestHandler.parsers[0].pluginRef (line 3): is missing a plugin reference; write the name of a plugin",
        ),
        (
            "{pluginRef: nobody}",
            "requestHandler.parsers[0].pluginRef (line 3): reference to undefined plugin 'nobody'; declare it under plugins",
        ),
        (
            "{pluginRef: queue-scorer}",
            "requestHandler.parsers[0].pluginRef (line 3): plugin 'queue-scorer' is a scorer and cannot stand here; remove the reference",
        ),
    ],
)
def test_a_parser_that_is_none_is_refused(reference, problem):
    assert problems_of(f"requestHandler: {{parsers: [{reference}]}}\n{SCORER}") == [problem]


def test_a_reference_to_a_plugin_that_is_refused_is_not_reported_again():
    assert problems_of(
        "requestHandler: {parsers: [{pluginRef: vllmgrpc-parser}]}\nplugins:\n- type: vllmgrpc-parser\n"
    ) == [
        "plugins[0].type (line 5): plugin type 'vllmgrpc-parser': not yet supported; remove the plugin and what refers to it"
    ]


def test_types_of_other_versions_are_accepted_with_their_defaults():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: models-data-source
          parameters: {path: /v1/models}
        """)

    assert config.notes == (
        "plugins[1].type: models-data-source: Accepted with its defaults, configures nothing.",
    )


def test_an_inert_plugin_in_a_profile_does_nothing_and_is_told():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: openai-parser
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: queue-scorer
          - pluginRef: openai-parser
        """)

    assert config.warnings == (
        "schedulingProfiles[0].plugins[1]: 'openai-parser' (inert) does nothing in a profile",
    )
