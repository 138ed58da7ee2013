"""Profiles, pickers, weights and the handler: defaulting and faults."""

import pytest

from epp.config.effective import WeightedScorer
from epp.config.load import load_config
from epp.scheduling.contracts import BuildContext
from epp.scheduling.registry import NoParameters, PluginKind, PluginType, Registry
from tests.config.config_texts import HEAD, config_of, problems_of


def build(_name: str, _parameters: object, _context: BuildContext) -> None:
    """No plugin is built from a configuration's test."""


def registry(*extra, without=()):
    """A registry with a filter, as plugin types of other kinds than this router has."""
    types = [
        ("a-filter", PluginKind.FILTER),
        ("a-scorer", PluginKind.SCORER),
        ("max-score-picker", PluginKind.PICKER),
        ("single-profile-handler", PluginKind.HANDLER),
        ("many-profiles-handler", PluginKind.HANDLER),
        ("utilization-detector", PluginKind.DETECTOR),
        *extra,
    ]
    return Registry(
        [PluginType(name, kind, NoParameters, build, "") for name, kind in types if name not in without]
    )


def test_without_profiles_one_holds_every_filter_scorer_and_picker():
    config = load_config(
        HEAD + "plugins:\n- type: a-scorer\n- type: a-filter\n- type: max-score-picker\n  name: mine\n",
        registry=registry(),
    )

    (profile,) = config.profiles
    assert profile.name == "default"
    assert profile.filters == ("a-filter",)
    assert profile.scorers == (WeightedScorer("a-scorer", 1.0, "schedulingProfiles[0].plugins[0]"),)
    assert profile.picker == "mine"
    assert config.provenance["schedulingProfiles[0].name"] == "implied: the file has no profile"
    assert config.provenance["schedulingProfiles[0].plugins[0].weight"] == "default"


def test_a_profile_keeps_the_order_of_filters_and_scorers():
    config = load_config(
        HEAD
        + "plugins:\n- {type: a-scorer, name: s1}\n- {type: a-scorer, name: s2}\n- {type: a-filter, name: f1}\n- {type: a-filter, name: f2}\n"
        + "schedulingProfiles:\n- name: p\n  plugins: [{pluginRef: f2}, {pluginRef: s2}, {pluginRef: f1}, {pluginRef: s1}]\n",
        registry=registry(),
    )

    (profile,) = config.profiles
    assert profile.filters == ("f2", "f1")
    assert [scorer.name for scorer in profile.scorers] == ["s2", "s1"]


def test_an_empty_configuration_loads_with_a_warning():
    config = load_config(HEAD)

    assert config.profiles[0].scorers == ()
    assert config.profiles[0].picker == "max-score-picker"
    assert config.handler == "single-profile-handler"
    assert config.warnings == ("plugins: no scorer is declared, so every endpoint ties",)


def test_a_picker_before_a_scorer_without_weight_loads_with_weight_1():
    config = config_of("""\
        plugins:
        - type: max-score-picker
        - type: queue-scorer
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: max-score-picker
          - pluginRef: queue-scorer
        """)

    assert config.profiles[0].scorers[0].weight == 1.0
    assert config.provenance["schedulingProfiles[0].plugins[1].weight"] == "default"


@pytest.mark.parametrize(("written", "weight"), [("2", 2.0), ("2.0", 2.0), ("0.5", 0.5), ("0", 0.0)])
def test_a_weight_is_an_integer_or_a_fraction(written, weight):
    config = config_of(f"""\
        plugins:
        - type: queue-scorer
        - type: kv-cache-utilization-scorer
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: queue-scorer
            weight: {written}
          - pluginRef: kv-cache-utilization-scorer
        """)

    assert config.profiles[0].scorers[0].weight == weight
    assert config.provenance["schedulingProfiles[0].plugins[0].weight"] == "line 10"


def test_a_weight_on_what_is_no_scorer_is_a_warning():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: max-score-picker
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: queue-scorer
          - pluginRef: max-score-picker
            weight: 3
        """)

    assert config.warnings == (
        "schedulingProfiles[0].plugins[1].weight: 'max-score-picker' is a picker; only scorers have a weight",
    )


def test_a_profile_gets_the_one_picker_that_is_declared():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: random-picker
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: queue-scorer
        """)

    assert config.profiles[0].picker == "random-picker"
    assert [plugin.name for plugin in config.plugins] == [
        "queue-scorer",
        "random-picker",
        "single-profile-handler",
        "utilization-detector",
    ]


def test_of_several_pickers_a_profile_must_name_one():
    assert problems_of("""\
        plugins:
        - type: queue-scorer
        - type: random-picker
        - type: max-score-picker
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: queue-scorer
        """) == [
        "schedulingProfiles[0] (line 8): has no picker, and several are declared (random-picker, max-score-picker); reference one of them"
    ]


def test_without_profiles_two_pickers_are_one_too_many():
    assert problems_of("""\
        plugins:
        - type: queue-scorer
        - type: random-picker
        - type: max-score-picker
        """) == [
        "plugins: failed to set 'max-score-picker' as picker, already have a registered picker plugin 'random-picker'; keep one picker in a profile"
    ]


def test_a_picker_with_faults_is_the_only_problem():
    assert problems_of("""\
        plugins:
        - type: queue-scorer
        - type: max-score-picker
          parameters: {maxNumOfEndpoints: 0}
        """) == [
        "plugins[1].parameters.maxNumOfEndpoints (line 6): must be at least 1, not 0; leave it out for the default (1)"
    ]


def test_a_reference_to_a_plugin_with_faults_is_not_reported_again():
    assert problems_of("""\
        plugins:
        - type: active-request-scorer
          parameters: {idleThreshold: -1}
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: active-request-scorer
        """) == [
        "plugins[0].parameters.idleThreshold (line 5): must be at least 0, not -1; leave it out for the default (0)"
    ]


def test_a_handler_or_a_producer_in_a_profile_is_a_warning():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: single-profile-handler
        - type: approx-prefix-cache-producer
        - type: prefix-cache-scorer
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: queue-scorer
          - pluginRef: prefix-cache-scorer
          - pluginRef: single-profile-handler
          - pluginRef: approx-prefix-cache-producer
        """)

    assert config.warnings == (
        "schedulingProfiles[0].plugins[2]: 'single-profile-handler' (profile handler) does nothing in a profile",
        "schedulingProfiles[0].plugins[3]: 'approx-prefix-cache-producer' (producer) does nothing in a profile",
    )


def test_a_scorer_in_no_profile_is_a_warning():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: kv-cache-utilization-scorer
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: queue-scorer
        """)

    assert config.warnings == (
        "plugins[1]: scorer 'kv-cache-utilization-scorer' is in no profile and has no effect",
    )


@pytest.mark.parametrize("plugins", ["[]", "[{pluginRef: queue-scorer, weight: 0}]"])
def test_a_profile_in_which_nothing_has_a_weight_is_a_warning(plugins):
    config = config_of(f"""\
        plugins:
        - type: queue-scorer
        schedulingProfiles:
        - name: p
          plugins: {plugins}
        """)

    assert (
        "schedulingProfiles[0]: no scorer has a weight in profile 'p', so every endpoint ties"
        in config.warnings
    )


def test_a_declared_handler_is_used_under_its_name():
    config = config_of("plugins:\n- type: queue-scorer\n- {type: single-profile-handler, name: mine}\n")

    assert config.handler == "mine"
    assert [plugin.name for plugin in config.plugins] == [
        "queue-scorer", "mine", "max-score-picker", "utilization-detector",
    ]  # fmt: skip


def test_a_handler_for_several_profiles_may_have_them():
    config = load_config(
        HEAD
        + "plugins:\n- type: a-scorer\n- type: many-profiles-handler\n"
        + "schedulingProfiles:\n- {name: p, plugins: [{pluginRef: a-scorer}]}\n- {name: q, plugins: [{pluginRef: a-scorer}]}\n",
        registry=registry(),
    )

    assert [profile.name for profile in config.profiles] == ["p", "q"]
    assert config.handler == "many-profiles-handler"


def test_a_handler_with_faults_is_not_implied_again():
    assert problems_of("""\
        plugins:
        - type: queue-scorer
        - type: single-profile-handler
          parameters: {stray: 1}
        """) == ["plugins[1].parameters.stray (line 6): unknown key 'stray'; known keys here: none"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("max-score-picker", "no picker is declared"),
        ("single-profile-handler", "no profile handler is declared"),
    ],
)
def test_the_name_of_an_implied_plugin_cannot_be_given_to_another(name, why):
    assert problems_of(f"plugins:\n- type: queue-scorer\n  name: {name}\n") == [
        f"plugins[0].name (line 4): the name {name!r} belongs to the plugin of that type, which is implied ({why}); rename this plugin"
    ]


def test_a_registry_without_the_implied_types_is_a_fault_of_the_program():
    with pytest.raises(LookupError, match=r"^the registry has no max-score-picker$"):
        load_config(HEAD, registry=registry(without=("max-score-picker",)))
