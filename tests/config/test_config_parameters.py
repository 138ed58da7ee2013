"""Plugin parameters: types, bounds, choices, deprecation; plugins that are no mapping."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from epp.config.load import load_config
from epp.config.report import config_as_dict, config_as_text
from epp.errors import ConfigError
from epp.scheduling.registry import Fault, NoParameters, PluginKind, PluginType, Registry, param
from tests.config.config_texts import HEAD, problems_of


@dataclass(frozen=True, slots=True)
class Inner:
    """What a list or a mapping in parameters may hold."""

    key: str = param("", key="key", doc="Its name.", required=True)
    limit: float = param(1.0, key="limit", doc="", minimum=0)
    note: str | None = param(None, key="note", doc="")

    def faults(self):
        if self.key == "nothing":
            yield Fault("limit", "is no limit of nothing", "remove it")


@dataclass(frozen=True, slots=True)
class Deep:
    """Parameters that are no single values."""

    names: tuple[str, ...] = param((), key="names", doc="")
    inners: tuple[Inner, ...] = param((), key="inners", doc="")
    inner: Inner | None = param(None, key="inner", doc="")
    texts: Mapping[str, str] | None = param(None, key="texts", doc="")
    age_s: float | None = param(None, key="age", doc="", above=0, duration=True)


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
        PluginType("deep", PluginKind.SCORER, Deep, print, ""),
        PluginType("old", PluginKind.SCORER, NoParameters, print, "", deprecated="use thing"),
        PluginType("max-score-picker", PluginKind.PICKER, NoParameters, print, ""),
        PluginType("single-profile-handler", PluginKind.HANDLER, NoParameters, print, ""),
        PluginType("utilization-detector", PluginKind.DETECTOR, NoParameters, print, ""),
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


def test_a_deprecated_type_is_a_warning():
    config = load_config(f"{HEAD}plugins:\n- type: old\n", registry=REGISTRY)

    assert config.warnings == ("plugins[0].type: old is deprecated: use thing",)


def deep(parameters):
    return load_config(f"{HEAD}plugins:\n- type: deep\n  parameters: {{{parameters}}}\n", registry=REGISTRY)


def test_lists_and_mappings_are_read_with_the_place_of_every_value():
    config = deep(
        "names: [on, 'a b'], inners: [{key: x}, {key: y, limit: 2}], inner: {key: z}, texts: {a: 1, b: ''}, age: 1m30s"
    )

    assert config.plugins[0].parameters == Deep(
        names=("on", "a b"),
        inners=(Inner("x", 1.0), Inner("y", 2.0)),
        inner=Inner("z"),
        texts={"a": "1", "b": ""},
        age_s=90.0,
    )
    places = {
        path: place
        for path, place in config.provenance.items()
        if path.startswith("plugins[0].parameters.in")
    }
    assert places == {
        "plugins[0].parameters.inners": "line 5",
        "plugins[0].parameters.inners[0]": "line 5",
        "plugins[0].parameters.inners[0].key": "line 5",
        "plugins[0].parameters.inners[0].limit": "default",
        "plugins[0].parameters.inners[0].note": "default",
        "plugins[0].parameters.inners[1]": "line 5",
        "plugins[0].parameters.inners[1].key": "line 5",
        "plugins[0].parameters.inners[1].limit": "line 5",
        "plugins[0].parameters.inners[1].note": "default",
        "plugins[0].parameters.inner": "line 5",
        "plugins[0].parameters.inner.key": "line 5",
        "plugins[0].parameters.inner.limit": "default",
        "plugins[0].parameters.inner.note": "default",
    }


def test_lists_and_mappings_are_shown_value_by_value_and_as_json():
    config = deep("names: [a], inners: [{key: x}], texts: {a: b}, age: 0.25")
    parameters = config_as_dict(config)["plugins"][0]["parameters"]

    assert {key: told["value"] for key, told in parameters.items()} == {
        "names": ["a"],
        "inners": [{"key": "x", "limit": 1.0, "note": None}],
        "texts": {"a": "b"},
        "age": "250ms",
    }
    lines = [line.split() for line in config_as_text(config).splitlines()]
    start = lines.index(["plugin", "deep", "deep", "line", "4"])
    assert lines[start + 1 : start + 6] == [
        ["names[0]", "a", "line", "5"],
        ["inners[0].key", "x", "line", "5"],
        ["inners[0].limit", "1.0", "default"],
        ["texts.a", "b", "line", "5"],
        ["age", "250ms", "line", "5"],
    ]


def test_what_a_list_holds_decides_the_hash():
    assert deep("inners: [{key: x}]").hash != deep("inners: [{key: y}]").hash
    assert deep("texts: {a: b}").hash != deep("texts: {a: c}").hash


@pytest.mark.parametrize(
    ("parameter", "problem"),
    [
        ("names: a", "names (line 5): must be a list, not a"),
        ("names: [[a]]", "names[0] (line 5): must be a string, not a list"),
        ("inners: [x]", "inners[0] (line 5): must be a mapping, not a single value"),
        ("inners: [{limit: 1}]", "inners[0].key (line 5): is missing; add it: its name."),
        (
            "inners: [{key: x, limit: -1}]",
            "inners[0].limit (line 5): must be at least 0, not -1; leave it out for the default (1.0)",
        ),
        ("inners: [{key: nothing}]", "inners[0].limit (line 5): is no limit of nothing; remove it"),
        (
            "inner: {ky: x}",
            "inner.ky (line 5): unknown key 'ky'; did you mean 'key'? known keys here: key, limit, note",
        ),
        ("texts: [a]", "texts (line 5): must be a mapping, not a list"),
        ("texts: {a: [b]}", "texts.a (line 5): must be a string, not a list"),
        ("age: 0", "age (line 5): must be greater than 0, not 0; leave it out"),
        (
            "age: soon",
            "age (line 5): must be a duration such as 200ms, 5s, 2m or a plain number of seconds, not soon",
        ),
        (
            "age: [1]",
            "age (line 5): must be a duration such as 200ms, 5s, 2m or a plain number of seconds, not a list",
        ),
    ],
)
def test_a_fault_deep_in_parameters_has_its_path(parameter, problem):
    with pytest.raises(ConfigError) as raised:
        deep(parameter)

    assert str(raised.value.problems[0]) == f"plugins[0].parameters.{problem}"


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
