"""`dataLayer.discovery` of the picker's configuration."""

import pytest

from epp.config.effective import FileDiscovery
from epp.config.report import config_as_dict, config_as_text
from tests.config.config_texts import config_of, problems_of

PLUGINS = """
plugins:
- type: queue-scorer
- {type: file-discovery, name: my-endpoints, parameters: {path: /etc/epp/endpoints.yaml, watchFile: true}}
"""


@pytest.mark.parametrize("section", ["dataLayer", "data"])
@pytest.mark.parametrize("reference", ["{pluginRef: my-endpoints}", "{endpoints: {pluginRef: my-endpoints}}"])
def test_the_older_and_the_newer_spelling_name_a_file(section, reference):
    config = config_of(f"{PLUGINS}\n{section}: {{discovery: {reference}}}\n")

    assert config.discovery == FileDiscovery("/etc/epp/endpoints.yaml", watch=True, origin="line 6")
    assert config.warnings == ()
    assert [p.name for p in config.plugins] == [
        "queue-scorer", "max-score-picker", "single-profile-handler", "utilization-detector",
    ]  # fmt: skip


def test_a_file_is_read_once_unless_watch_file_is_on():
    config = config_of(
        "plugins: [{type: queue-scorer}, {type: file-discovery, parameters: {path: e.yaml}}]\n"
        "dataLayer: {discovery: {pluginRef: file-discovery}}\n"
    )

    assert config.discovery == FileDiscovery("e.yaml", watch=False, origin="line 3")


def test_without_the_section_nothing_is_said_of_endpoints():
    assert config_of("plugins: [{type: queue-scorer}]\n").discovery is None


def test_a_file_that_nothing_refers_to_has_no_effect():
    config = config_of(PLUGINS)

    assert config.discovery is None
    assert config.warnings == (
        "plugins[1]: 'my-endpoints' has no effect: dataLayer.discovery does not refer to it",
    )


def test_the_path_of_the_file_is_no_part_of_the_hash():
    with_file = config_of(f"{PLUGINS}\ndataLayer: {{discovery: {{pluginRef: my-endpoints}}}}\n")

    assert with_file.hash == config_of("plugins: [{type: queue-scorer}]\n").hash


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (
            "{pluginRef: my-endpoints, endpoints: {pluginRef: my-endpoints}}",
            (
                "dataLayer.discovery.pluginRef (line 8): stands beside endpoints.pluginRef, which is its newer spelling; "
                "keep one of them"
            ),
        ),
        (
            "{}",
            "dataLayer.discovery.pluginRef (line 8): is missing a plugin reference; write the name of a plugin",
        ),
        (
            "{endpoints: {pluginRef: queue-scorer}}",
            (
                "dataLayer.discovery.endpoints.pluginRef (line 8): plugin 'queue-scorer' is a scorer and cannot stand here; "
                "remove the reference"
            ),
        ),
        (
            "{pluginRef: mine}",
            "dataLayer.discovery.pluginRef (line 8): reference to undefined plugin 'mine'; declare it under plugins",
        ),
        (
            "{plugin: mine}",
            (
                "dataLayer.discovery.plugin (line 8): unknown key 'plugin'; did you mean 'pluginRef'? known keys here: "
                "pluginRef, endpoints"
            ),
        ),
        ("mine", "dataLayer.discovery (line 8): must be a mapping, not a single value"),
    ],
)
def test_what_is_wrong_is_said(section, problem):
    assert problem in problems_of(f"{PLUGINS}\ndataLayer: {{discovery: {section}}}\n")


def test_a_file_without_a_path_is_a_fault_wherever_it_stands():
    assert problems_of(
        "plugins: [{type: queue-scorer}, {type: file-discovery, parameters: {watchFile: true}}]\n"
    ) == ["plugins[1].parameters.path (line 3): is missing; name a file"]


def test_the_file_is_shown():
    config = config_of(f"{PLUGINS}\ndataLayer: {{discovery: {{pluginRef: my-endpoints}}}}\n")
    once = config_of(
        "plugins: [{type: queue-scorer}, {type: file-discovery, parameters: {path: e.yaml}}]\n"
        "dataLayer: {discovery: {pluginRef: file-discovery}}\n"
    )

    assert config_as_dict(config)["discovery"] == {
        "file": "/etc/epp/endpoints.yaml", "watch": True, "from": "line 6",
    }  # fmt: skip
    lines = [line.split() for line in config_as_text(config).splitlines()]
    assert ["endpoints", "from", "/etc/epp/endpoints.yaml", "followed", "line", "6"] in lines
    assert ["endpoints", "from", "e.yaml", "read", "once", "line", "3"] in [
        line.split() for line in config_as_text(once).splitlines()
    ]
    assert config_as_dict(config_of("plugins: [{type: queue-scorer}]\n"))["discovery"] is None
