"""Configurations inside Helm values and ConfigMaps."""

import textwrap

import pytest

from epp.config.extract import Extracted, extract_config, load_any_config
from epp.errors import ConfigError

CONFIG = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n"
BROKEN = CONFIG.replace("queue-scorer", "queue-scorrer")


def indented(text, by):
    return textwrap.indent(text, " " * by)


GIE_VALUES = (
    'inferenceExtension:\n  replicas: 1\n  pluginsConfigFile: "custom-plugins.yaml"\n  pluginsCustomConfig:\n    custom-plugins.yaml: |\n'
    + indented(CONFIG, 6)
)
LLM_D_VALUES = (
    "router:\n  epp:\n    pluginsConfigFile: tiered.yaml\n    pluginsCustomConfig:\n      tiered.yaml: |\n"
    + indented(CONFIG, 8)
    + "  modelServers:\n    matchLabels:\n      llm-d.ai/guide: tiered\n"
)
CONFIG_MAP = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: epp\ndata:\n  default-plugins.yaml: |\n"
    + indented(CONFIG, 4)
)


def test_a_plain_file_is_taken_as_it_is():
    assert extract_config(CONFIG) == Extracted(CONFIG, "plain file")


def test_helm_values_of_gie_hold_it_below_inference_extension():
    assert extract_config(GIE_VALUES) == Extracted(
        CONFIG, "Helm values", "inferenceExtension.pluginsCustomConfig[custom-plugins.yaml]", 6
    )


def test_helm_values_of_llm_d_hold_it_below_router():
    assert extract_config(LLM_D_VALUES) == Extracted(
        CONFIG, "Helm values", "router.epp.pluginsCustomConfig[tiered.yaml]", 6
    )


def test_a_config_map_holds_it_below_data():
    assert extract_config(CONFIG_MAP) == Extracted(CONFIG, "ConfigMap", "data[default-plugins.yaml]", 7)


def test_a_config_map_among_other_documents_is_found():
    text = "apiVersion: v1\nkind: Service\n---\n" + CONFIG_MAP

    assert extract_config(text).form == "ConfigMap"
    assert extract_config(text).first_line == 10


def test_a_config_map_in_a_list_is_found():
    text = "kind: List\nitems:\n- kind: ConfigMap\n  data:\n    a: |\n" + indented(CONFIG, 6)

    assert extract_config(text) == Extracted(CONFIG, "ConfigMap", "items[0].data.a", 6)


def test_json_inside_json_is_found():
    text = '{"kind": "ConfigMap", "data": {"a": "{\\"apiVersion\\": \\"llm-d.ai/v1\\", \\"kind\\": \\"EndpointPickerConfig\\"}"}}'

    assert extract_config(text) == Extracted(
        '{"apiVersion": "llm-d.ai/v1", "kind": "EndpointPickerConfig"}', "ConfigMap", "data.a", 1
    )


def test_of_several_the_one_that_is_selected_is_used():
    text = (
        "router:\n  epp:\n    pluginsConfigFile: b.yaml\n    pluginsCustomConfig:\n      a.yaml: |\n"
        + indented(BROKEN, 8)
        + "      b.yaml: |\n"
        + indented(CONFIG, 8)
    )

    assert extract_config(text).path == "router.epp.pluginsCustomConfig[b.yaml]"


def test_several_without_a_selection_are_refused():
    text = "data:\n  a.yaml: |\n" + indented(CONFIG, 4) + "  b.yaml: |\n" + indented(CONFIG, 4)

    with pytest.raises(ConfigError) as raised:
        extract_config(text, "map.yaml")

    assert str(raised.value) == (
        "map.yaml: configuration is invalid\ndocument: holds 2 configurations: data[a.yaml], data[b.yaml]; "
        "keep one, or save it as a plain file"
    )


def test_what_two_aliases_share_is_one_configuration():
    text = "a: &x\n  plugins.yaml: |\n" + indented(CONFIG, 4) + "b: *x\n"

    assert extract_config(text).path == "a[plugins.yaml]"


def test_values_around_it_must_not_be_faulty():
    with pytest.raises(ConfigError) as raised:
        extract_config("a: 1\na: 2\n" + CONFIG_MAP)

    assert [str(problem) for problem in raised.value.problems] == [
        "a (line 2): is given twice, on line 1 and on line 2; keep one of them",
    ]


def test_a_text_without_one_is_a_plain_file_with_its_faults():
    assert extract_config("a: [") == Extracted("a: [", "plain file")


def test_lines_of_a_block_are_lines_of_the_file():
    with pytest.raises(ConfigError) as raised:
        load_any_config(GIE_VALUES.replace("queue-scorer", "queue-scorrer"), "values.yaml")

    assert raised.value.problems[0].line == 9
    assert raised.value.source == (
        "values.yaml (Helm values: inferenceExtension.pluginsCustomConfig[custom-plugins.yaml])"
    )


def test_lines_of_a_quoted_string_are_its_own():
    text = "data:\n  plugins.yaml: " + '"' + BROKEN.replace("\n", "\\n") + '"\n'

    with pytest.raises(ConfigError) as raised:
        load_any_config(text)

    assert raised.value.problems[0].line == 4


def test_any_form_loads():
    extracted, config = load_any_config(LLM_D_VALUES, "values.yaml")

    assert extracted.form == "Helm values"
    assert config.profiles[0].scorers[0].name == "queue-scorer"
    assert config.provenance["plugins[0].type"] == "line 9"
