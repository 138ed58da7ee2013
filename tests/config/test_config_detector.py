"""Which saturation detector runs, in every form in which versions of the Go picker name it."""

import pytest

from epp.config.load import load_config
from epp.flow.concurrency import ConcurrencyDetectorParameters
from epp.flow.utilization import UtilizationDetectorParameters
from epp.scheduling.registry import NoParameters, PluginKind, PluginType, Registry
from tests.config.config_texts import HEAD, config_of, problems_of

SCORER = "plugins:\n- type: queue-scorer\n"


def detector_of(config):
    return next(plugin for plugin in config.plugins if plugin.name == config.detector)


def test_without_a_word_it_is_the_utilization_detector_with_its_defaults():
    detector = detector_of(config_of(SCORER))

    assert (detector.name, detector.type, detector.kind) == (
        "utilization-detector",
        "utilization-detector",
        PluginKind.DETECTOR,
    )
    assert detector.parameters == UtilizationDetectorParameters(
        queue_depth=5, kv_usage=0.8, staleness_s=None, headroom=0.0, staleness_policy="ignore"
    )


def test_an_implied_detector_filters_nothing():
    assert config_of(SCORER).profiles[0].filters == ()


def test_thresholds_in_the_section_of_gie_1_2():
    config = config_of(f"""\
        saturationDetector:
          queueDepthThreshold: 10
          kvCacheUtilThreshold: 0.9
          metricsStalenessThreshold: 150ms
        {SCORER.replace(chr(10), chr(10) + " " * 8)}""")

    detector = detector_of(config)
    assert detector.parameters == UtilizationDetectorParameters(10, 0.9, 0.15)
    assert detector.origin == "line 4"
    assert config.provenance["saturationDetector.queueDepthThreshold"] == "line 4"
    assert config.provenance["saturationDetector.headroom"] == "default"
    assert config.notes == config.warnings == ()


@pytest.mark.parametrize(
    "section", ["saturationDetector: {}", "saturationDetector: {pluginRef: utilization-detector}"]
)
def test_a_section_without_values_is_the_default(section):
    assert detector_of(config_of(f"{section}\n{SCORER}")).parameters == UtilizationDetectorParameters()


@pytest.mark.parametrize(
    "section",
    ["saturationDetector: {pluginRef: mine}", "flowControl: {saturationDetector: {pluginRef: mine}}"],
)
def test_a_reference_to_a_declared_detector(section):
    config = config_of(f"""\
        plugins:
        - type: queue-scorer
        - type: concurrency-detector
          name: mine
          parameters: {{maxConcurrency: 132}}
        {section}
        schedulingProfiles:
        - name: default
          plugins: [{{pluginRef: queue-scorer}}]
        """)

    assert config.detector == "mine"
    assert detector_of(config).parameters == ConcurrencyDetectorParameters(max_requests=132)
    assert config.profiles[0].filters == ()
    assert config.warnings == ()


def test_a_declared_detector_of_the_default_name_is_the_one():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: utilization-detector
          parameters: {queueDepthThreshold: 9, headroom: 0.2}
        """)

    assert detector_of(config).parameters == UtilizationDetectorParameters(queue_depth=9, headroom=0.2)
    assert detector_of(config).origin == "line 5"


def test_without_profiles_a_declared_detector_is_a_filter_too():
    config = config_of("plugins:\n- type: concurrency-detector\n- type: queue-scorer\n")

    assert config.profiles[0].filters == ("concurrency-detector",)
    assert config.detector == "utilization-detector"


def test_a_profile_may_name_a_detector_as_a_filter():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: utilization-detector
        schedulingProfiles:
        - name: default
          plugins: [{pluginRef: utilization-detector}, {pluginRef: queue-scorer}]
        """)

    assert config.profiles[0].filters == ("utilization-detector",)


def test_a_detector_that_nothing_names_is_a_warning():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: concurrency-detector
        schedulingProfiles:
        - name: default
          plugins: [{pluginRef: queue-scorer}]
        """)

    assert config.warnings == (
        "plugins[1]: saturation detector 'concurrency-detector' is in no profile and has no effect",
    )


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (
            "saturationDetector: {pluginRef: another}",
            "saturationDetector.pluginRef (line 3): reference to undefined plugin 'another'; declare it under plugins",
        ),
        (
            "flowControl: {saturationDetector: {}}",
            "flowControl.saturationDetector.pluginRef (line 3): is missing a plugin reference; write the name of a plugin",
        ),
        (
            "saturationDetector: {pluginRef: queue-scorer}",
            "saturationDetector.pluginRef (line 3): plugin 'queue-scorer' is a scorer, not a saturation detector; detectors: concurrency-detector, utilization-detector",
        ),
        ("saturationDetector: 5", "saturationDetector (line 3): must be a mapping, not a single value"),
        (
            "saturationDetector: {queueDepthThreshold: -1}",
            "saturationDetector.queueDepthThreshold (line 3): must be greater than 0, not -1; leave it out for the default (5)",
        ),
        (
            "saturationDetector: {pluginRef: utilization-detector, headroom: 1}",
            "saturationDetector.headroom (line 3): unknown key 'headroom'; known keys here: pluginRef",
        ),
        (
            "saturationDetector: {}\nflowControl: {saturationDetector: {pluginRef: utilization-detector}}",
            "saturationDetector (line 3): is given beside flowControl.saturationDetector; keep flowControl.saturationDetector",
        ),
    ],
)
def test_a_section_that_names_no_detector_is_refused(section, problem):
    assert problems_of(f"{section}\n{SCORER}") == [problem]


def test_thresholds_beside_a_declared_detector_of_the_default_name_are_refused():
    assert problems_of(
        "saturationDetector: {queueDepthThreshold: 9}\nplugins:\n- type: queue-scorer\n- type: utilization-detector\n"
    ) == [
        "plugins[1].name (line 6): the name 'utilization-detector' belongs to the plugin of that type, which is implied (the section saturationDetector has values); rename this plugin"
    ]


def test_another_plugin_must_not_have_the_default_detectors_name():
    assert problems_of("plugins:\n- {type: queue-scorer, name: utilization-detector}\n") == [
        "plugins[0].name (line 4): the name 'utilization-detector' belongs to the plugin of that type, which is implied (no saturation detector is named); rename this plugin"
    ]


def test_a_detector_with_faults_is_not_reported_again():
    assert problems_of(
        "plugins:\n- {type: concurrency-detector, name: mine, parameters: {maxConcurrency: 0}}\n- type: queue-scorer\nsaturationDetector: {pluginRef: mine}\n"
    ) == [
        "plugins[0].parameters.maxConcurrency (line 4): must be greater than 0, not 0; leave it out for the default (100)"
    ]


def test_a_registry_without_the_default_detector_is_a_fault_of_the_program():
    registry = Registry([PluginType("a-scorer", PluginKind.SCORER, NoParameters, print, "")])

    with pytest.raises(LookupError, match="the registry has no utilization-detector"):
        load_config(HEAD + "plugins:\n- type: a-scorer\n", registry=registry)
