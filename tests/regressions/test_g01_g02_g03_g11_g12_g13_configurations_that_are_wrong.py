"""Configurations that must fail with every fault named, or must not.

G01 (LR, the loader's test data). G02 (GIE p1958): a picker before a scorer. G03 (GIE p1846): sizes. G11 (llm-d p1345):
weights. G12 (GIE p2871, AG p1957): scalars that change their type. G13 (LR p1876): the order of plugins.
"""

import pytest

from epp.cli import main
from epp.config import load_config
from epp.errors import ConfigError

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
QUEUE = "plugins: [{type: queue-scorer}]\n"
PROFILE = "schedulingProfiles:\n- name: a\n  plugins: [{pluginRef: queue-scorer}]\n"
FAULTY = {
    "plugin without type": ("plugins: [{name: a}]\n", "plugins[0].type"),
    "unknown type": ("plugins: [{type: nothing}]\n", "plugins[0].type"),
    "duplicate plugin name": ("plugins: [{type: queue-scorer}, {type: queue-scorer}]\n", "plugins[1].name"),
    "profile without name": (
        QUEUE + "schedulingProfiles: [{plugins: [{pluginRef: queue-scorer}]}]\n",
        "[0].name",
    ),
    "duplicate profile": (QUEUE + PROFILE + PROFILE.partition("\n")[2], "schedulingProfiles"),
    "entry without reference": (
        QUEUE + "schedulingProfiles: [{name: a, plugins: [{weight: 1}]}]\n",
        "pluginRef",
    ),
    "undefined reference": (
        QUEUE + "schedulingProfiles: [{name: a, plugins: [{pluginRef: b}]}]\n",
        "pluginRef",
    ),
    "two pickers": ("plugins: [{type: random-picker}, {type: max-score-picker}]\n", "max-score-picker"),
    "wrong type of a parameter": (
        "plugins: [{type: prefix-cache-scorer, parameters: {blockSize: asdf}}]\n",
        "blockSize",
    ),
    "unknown key": (QUEUE + "nothing: 1\n", "nothing"),
    "unknown gate": (QUEUE + "featureGates: [nothing]\n", "featureGates[0]"),
    "gate with a value": (QUEUE + "featureGates: [flowControl=qwerty]\n", "featureGates[0]"),
    "two profiles for one handler": (
        QUEUE
        + "schedulingProfiles:\n- {name: a, plugins: [{pluginRef: queue-scorer}]}\n"
        + "- {name: b, plugins: [{pluginRef: queue-scorer}]}\n",
        "schedulingProfiles",
    ),
    "block size 0": ("plugins: [{type: prefix-cache-scorer, parameters: {blockSize: 0}}]\n", "blockSize"),
    "block size -1": ("plugins: [{type: prefix-cache-scorer, parameters: {blockSize: -1}}]\n", "blockSize"),
    "capacity 0": (
        "plugins: [{type: prefix-cache-scorer, parameters: {lruCapacityPerServer: 0}}]\n",
        "lruCapacity",
    ),
    "cap -5": (
        "plugins: [{type: prefix-cache-scorer, parameters: {maxPrefixBlocksToMatch: -5}}]\n",
        "maxPrefixBlocks",
    ),
}


def problems(text):
    with pytest.raises(ConfigError) as caught:
        load_config(HEAD + text)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("name", sorted(FAULTY))
def test_g01_g03_a_fault_is_named_with_its_key(name):
    text, key = FAULTY[name]
    [problem] = problems(text)

    assert key in problem


def test_g01_scorers_that_wait_for_each_others_views_are_both_named():
    scorer = "{{type: prefix-cache-scorer, name: {}, parameters: {{prefixMatchInfoProducerName: {}}}}}"
    found = problems(f"plugins: [{scorer.format('a', 'b')}, {scorer.format('b', 'a')}]\n")

    assert [problem.partition(" ")[0] for problem in found] == [
        "plugins[0].parameters.prefixMatchInfoProducerName",
        "plugins[1].parameters.prefixMatchInfoProducerName",
    ]


def test_g01_all_faults_are_told_and_not_the_first_alone():
    found = problems(
        "plugins: [{type: nothing}, {name: a}, {type: queue-scorer, parameters: {x: 1}}]\nx: 1\n"
    )

    assert len(found) == 4


def test_g01_the_command_ends_with_2_and_listens_on_nothing(tmp_path, capsys):
    file = tmp_path / "faulty.yaml"
    file.write_text(HEAD + "plugins: [{type: nothing}]\n")
    status = main(["serve", "--config", str(file), "--port", "0", "--endpoint", "http://127.0.0.1:1"])
    said = capsys.readouterr()

    assert status == 2
    assert "plugins[0].type" in said.err
    assert "Traceback" not in said.err
    assert "listening" not in said.err + said.out


def test_g02_a_picker_before_a_scorer_without_weight_is_fine():
    config = load_config(
        HEAD
        + "plugins: [{type: max-score-picker}, {type: queue-scorer}]\n"
        + "schedulingProfiles: [{name: a, plugins: [{pluginRef: max-score-picker}, {pluginRef: queue-scorer}]}]\n"
    )
    [profile] = config.profiles

    assert (profile.picker, [(s.name, s.weight) for s in profile.scorers]) == (
        "max-score-picker",
        [("queue-scorer", 1.0)],
    )


def weighed(weight):
    return (
        QUEUE
        + f"schedulingProfiles: [{{name: a, plugins: [{{pluginRef: queue-scorer, weight: {weight}}}]}}]\n"
    )


def test_g11_weights_are_numbers_with_or_without_a_fraction():
    weights = [
        load_config(HEAD + weighed(text)).profiles[0].scorers[0].weight for text in ("2", "2.0", "0.5")
    ]

    assert weights == [2.0, 2.0, 0.5]
    assert load_config(HEAD + weighed("2")).hash == load_config(HEAD + weighed("2.0")).hash


@pytest.mark.parametrize("weight", ['"2"', "-1", ".nan", ".inf", "-.inf", "two", "true"])
def test_g11_anything_else_is_refused(weight):
    [problem] = problems(weighed(weight))

    assert problem.startswith("schedulingProfiles[0].plugins[0].weight (line 4): must be")


@pytest.mark.parametrize("name", ["1e3", "0123", "on", "no", "1_000", "null-model", "2024-01-01", ".5"])
def test_g12_names_stay_what_was_written(name):
    config = load_config(HEAD + f"plugins: [{{type: queue-scorer, name: {name}}}]\n")

    assert [s.name for s in config.profiles[0].scorers] == [name]


@pytest.mark.parametrize("value", ['"false"', "off", "0", "FALSE_"])
def test_g12_what_is_no_bare_boolean_is_refused(value):
    [problem] = problems(f"plugins: [{{type: prefix-cache-scorer, parameters: {{autoTune: {value}}}}}]\n")

    assert problem.startswith("plugins[0].parameters.autoTune (line 3): must be true or false")


def test_g13_a_plugin_may_stand_before_what_it_needs():
    scorer = "{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: p}}"
    producer = "{type: approx-prefix-cache-producer, name: p}"
    before, after = (
        load_config(HEAD + f"plugins: [{a}, {b}]\n") for a, b in ((scorer, producer), (producer, scorer))
    )

    assert before.hash == after.hash
    assert [view.producer for view in before.views] == ["p"]
