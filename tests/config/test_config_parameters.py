"""Plugin parameters: types, bounds, choices, deprecation; plugins that are no mapping."""

from dataclasses import dataclass

import pytest

from epp.config.load import load_config
from epp.errors import ConfigError
from epp.scheduling.registry import NoParameters, PluginKind, PluginType, Registry, param
from tests.config.config_texts import HEAD, problems_of


@dataclass(frozen=True, slots=True)
class Parameters:
    """One of each kind."""

    whole: int = param(1, key="whole", doc="", minimum=1, maximum=9)
    above: int | None = param(None, key="above", doc="", above=0)
    share: float = param(0.5, key="share", doc="", minimum=0, maximum=1)
    flag: bool = param(True, key="flag", doc="")
    text: str | None = param(None, key="text", doc="")
    choice: str = param("red", key="choice", doc="", choices=("red", "green"))
    old: str | None = param(None, key="old", doc="", deprecated="use text")


REGISTRY = Registry(
    [
        PluginType("thing", PluginKind.SCORER, Parameters, print, ""),
        PluginType("max-score-picker", PluginKind.PICKER, NoParameters, print, ""),
        PluginType("single-profile-handler", PluginKind.HANDLER, NoParameters, print, ""),
    ]
)


def load(parameters):
    return load_config(f"{HEAD}plugins:\n- type: thing\n  parameters: {{{parameters}}}\n", registry=REGISTRY)


def test_absent_parameters_have_their_defaults():
    assert load("").plugins[0].parameters == Parameters()


def test_every_kind_is_read():
    config = load("whole: 9, above: 1, share: 1, flag: false, text: 007, choice: green")

    assert config.plugins[0].parameters == Parameters(9, 1, 1.0, False, "007", "green")


def test_absent_and_zero_differ():
    assert load("share: 0").plugins[0].parameters.share == 0.0
    assert load("share: ~").plugins[0].parameters.share == 0.5


@pytest.mark.parametrize(
    ("parameter", "problem"),
    [
        ("whole: 0", "whole (line 5): must be at least 1, not 0; leave it out for the default (1)"),
        ("whole: 10", "whole (line 5): must be at most 9, not 10; leave it out for the default (1)"),
        ("above: 0", "above (line 5): must be greater than 0, not 0; leave it out"),
        ("share: 1.01", "share (line 5): must be at most 1, not 1.01; leave it out for the default (0.5)"),
        ("choice: gren", "choice (line 5): must be one of red, green, not gren; did you mean 'green'?"),
        (
            "choice: blue",
            "choice (line 5): must be one of red, green, not blue; leave it out for the default (red)",
        ),
        ("text: [a]", "text (line 5): must be a string, not a list"),
    ],
)
def test_a_value_out_of_bounds_gets_the_bound_and_the_default(parameter, problem):
    with pytest.raises(ConfigError) as raised:
        load(parameter)

    assert [str(p) for p in raised.value.problems] == [f"plugins[0].parameters.{problem}"]


def test_a_deprecated_parameter_is_a_warning():
    assert load("old: x").warnings == ("plugins[0].parameters.old: is deprecated: use text",)


def test_a_plugin_is_a_mapping():
    assert problems_of("plugins:\n- queue-scorer\n") == [
        "plugins[0] (line 4): must be a mapping with the key type, not queue-scorer"
    ]


def test_two_plugins_without_type_and_name_are_not_called_duplicates():
    problems = problems_of("plugins:\n- {}\n- {}\n")

    assert [problem.partition(";")[0] for problem in problems] == [
        "plugins[0].type (line 4): plugin definition for '' is missing a type",
        "plugins[1].type (line 5): plugin definition for '' is missing a type",
    ]


def test_the_name_of_a_plugin_with_faults_is_taken_all_the_same():
    assert problems_of(
        "plugins:\n- type: vllmgrpc-parser\n- {type: queue-scorer, name: vllmgrpc-parser}\n"
    ) == [
        "plugins[0].type (line 4): plugin type 'vllmgrpc-parser': not yet supported; remove the plugin and what refers to it",
        "plugins[1].name (line 5): plugin name 'vllmgrpc-parser' used more than once; give each plugin a name of its own",
    ]


def test_a_type_that_is_known_but_unbuilt_is_suggested_for_what_it_is():
    (problem,) = problems_of("plugins:\n- type: session-afinity-scorer\n")

    assert "did you mean 'session-affinity-scorer'?" in problem


def test_a_type_is_a_string():
    assert (
        problems_of("plugins:\n- type: [queue-scorer]\n")[0]
        == "plugins[0].type (line 4): must be a string, not a list"
    )
