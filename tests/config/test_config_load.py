"""The document as a whole: kind, version, order of problems, order of plugins, JSON."""

import json

import pytest

from epp.config import load_config
from epp.config.catalog import default_registry
from epp.errors import ConfigError
from tests.config.config_texts import HEAD, config_of, problems_of, problems_of_text


@pytest.mark.parametrize(
    "version", ["inference.networking.x-k8s.io/v1alpha1", "llm-d.ai/v1alpha1", "llm-d.ai/v1"]
)
def test_three_api_versions_are_known(version):
    text = f"apiVersion: {version}\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n"

    assert load_config(text).profiles[0].scorers[0].name == "queue-scorer"


def test_a_missing_version_is_a_problem():
    assert problems_of_text("kind: EndpointPickerConfig\n") == [
        "apiVersion (line 1): is missing; one of: inference.networking.x-k8s.io/v1alpha1, llm-d.ai/v1alpha1, llm-d.ai/v1"
    ]


def test_a_missing_kind_is_the_only_problem():
    assert problems_of_text("inferenceExtension:\n  replicas: 1\n") == [
        "kind (line 1): is missing; write kind: EndpointPickerConfig (`epp check` also finds it in Helm values and ConfigMaps)"
    ]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~\n"])
def test_an_empty_text_is_a_problem(text):
    assert problems_of_text(text) == [
        "document: is empty; write an EndpointPickerConfig, or leave the file out for the default"
    ]


def test_a_list_is_no_configuration():
    assert problems_of_text("- a\n") == ["document (line 1): must be a mapping, not a list"]


def test_a_second_document_is_a_problem():
    assert problems_of_text(HEAD + "---\na: 1\n") == [
        "document (line 4): is followed by another one, 2 in all; keep one"
    ]


def test_problems_come_in_the_order_of_the_lines_those_without_a_line_last():
    lines = problems_of("""\
        schedulingProfiles:
        - name: a
          plugins:
          - pluginRef: nobody
        - name: b
        plugins:
        - type: nothing-like-it
        """)

    assert [line.partition(":")[0] for line in lines] == [
        "schedulingProfiles[0].plugins[0].pluginRef (line 6)",
        "plugins[0].type (line 9)",
        "schedulingProfiles",
    ]


def test_the_error_names_the_source():
    with pytest.raises(ConfigError, match=r"^plugins\.yaml: configuration is invalid\ndocument: is empty"):
        load_config("", "plugins.yaml")


def test_json_is_read_too():
    body = {
        "apiVersion": "llm-d.ai/v1",
        "kind": "EndpointPickerConfig",
        "plugins": [
            {"type": "queue-scorer"},
            {"type": "prefix-cache-scorer", "parameters": {"blockSize": 512}},
        ],
        "schedulingProfiles": [
            {"name": "default", "plugins": [{"pluginRef": "queue-scorer", "weight": 2.5}]}
        ],
    }

    config = load_config(json.dumps(body, indent="\t"))

    assert config.profiles[0].scorers[0].weight == 2.5
    assert config.views[0].block_bytes == 512


def test_the_order_of_plugins_never_matters():
    before = config_of("""\
        plugins:
        - type: prefix-cache-scorer
          name: reader
          parameters: {prefixMatchInfoProducerName: producer}
        - type: approx-prefix-cache-producer
          name: producer
        - type: queue-scorer
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: reader
          - pluginRef: queue-scorer
        """)
    after = config_of("""\
        plugins:
        - type: queue-scorer
        - type: approx-prefix-cache-producer
          name: producer
        - type: prefix-cache-scorer
          name: reader
          parameters: {prefixMatchInfoProducerName: producer}
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: reader
          - pluginRef: queue-scorer
        """)

    assert before.hash == after.hash


def test_comments_lines_and_source_do_not_change_the_hash():
    assert load_config(HEAD, "a").hash == load_config("# a comment\n" + HEAD, "b", first_line=7).hash


@pytest.mark.parametrize(
    "body",
    [
        "plugins:\n- type: queue-scorer\n- type: random-picker\n",
        "plugins:\n- type: running-requests-size-scorer\n",
        "plugins:\n- type: queue-scorer\nschedulingProfiles:\n- name: default\n  plugins:\n  - pluginRef: queue-scorer\n    weight: 2\n",
        "plugins:\n- type: queue-scorer\n- type: prefix-cache-scorer\n",
    ],
)
def test_what_decides_changes_the_hash(body):
    assert load_config(HEAD + body).hash != load_config(HEAD + "plugins:\n- type: queue-scorer\n").hash


def test_a_tier_changes_the_hash():
    text = "plugins:\n- type: prefix-cache-scorer\n  parameters: {tier: %s}\n"

    assert config_of(text % "gpu").hash != config_of(text % "cpu").hash


def test_names_that_yaml_1_1_would_change_stay_names():
    config = config_of("""\
        plugins:
        - {type: queue-scorer, name: on}
        - {type: queue-scorer, name: 0123}
        - {type: queue-scorer, name: 1e3}
        schedulingProfiles:
        - name: no
          plugins:
          - pluginRef: on
          - pluginRef: 0123
          - pluginRef: 1e3
        """)

    assert config.profiles[0].name == "no"
    assert [scorer.name for scorer in config.profiles[0].scorers] == ["on", "0123", "1e3"]


def test_null_is_the_same_as_absent():
    config = config_of("""\
        featureGates:
        plugins:
        - {type: prefix-cache-scorer, name: ~, parameters: {autoTune: null, lruCapacityPerServer: ~}}
        schedulingProfiles:
        - name: default
          plugins:
          - {pluginRef: prefix-cache-scorer, weight: null}
        """)

    assert config.plugins[0].name == "prefix-cache-scorer"
    assert config.profiles[0].scorers[0].weight == 1.0
    assert [view.producer for view in config.views] == ["approx-prefix-cache-producer"]


def test_provenance_tells_line_default_and_implied():
    config = config_of("""\
        plugins:
        - type: active-request-scorer
          parameters:
            idleThreshold: 8
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: active-request-scorer
        """)

    assert dict(config.provenance) == {
        "apiVersion": "line 1",
        "kind": "line 2",
        "plugins[0].type": "line 4",
        "plugins[0].name": "default",
        "plugins[0].parameters.idleThreshold": "line 6",
        "plugins[0].parameters.maxBusyScore": "default",
        "plugins[0].parameters.requestTimeout": "default",
        "plugins[0].parameters.inFlightLoadProducerName": "default",
        "schedulingProfiles[0].name": "line 8",
        "schedulingProfiles[0].plugins[0].pluginRef": "line 10",
        "schedulingProfiles[0].plugins[0].weight": "default",
    }


def test_another_registry_may_be_handed_in():
    assert load_config(HEAD, registry=default_registry()).hash == load_config(HEAD).hash
