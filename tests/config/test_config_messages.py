"""Every key, flag and command that a message names exists."""

import re

import pytest

from epp.cli import COMMANDS
from epp.config import load_config
from epp.config.catalog import default_registry
from epp.config.compatibility import DATA_LAYER_KEYS, FLOW_CONTROL_KEYS, UNBUILT_TYPES
from epp.config.settings import leaves
from epp.errors import ConfigError
from epp.scheduling.registry import params_of
from tests.config.config_texts import ROOT

INVALID = sorted((ROOT / "config" / "invalid").glob("*.yaml"))
TYPES = {plugin_type.type: plugin_type for plugin_type in default_registry().types()}
PARAMETERS = {key for plugin_type in TYPES.values() for key in params_of(plugin_type.parameters)}
FLAGS = {leaf.flag for leaf in leaves()} | {"--settings"}


def remedies():
    for path in INVALID:
        with pytest.raises(ConfigError) as raised:
            load_config(path.read_text())
        yield from (problem.remedy for problem in raised.value.problems)


def test_every_camel_case_word_of_a_remedy_is_a_key_or_a_gate():
    known = (
        PARAMETERS
        | set(DATA_LAYER_KEYS)
        | set(FLOW_CONTROL_KEYS)
        | {"apiVersion", "featureGates", "schedulingProfiles", "dataLayer", "flowControl", "requestHandler"}
        | {"pluginRef", "saturationDetector", "prepareDataPlugins", "enableLegacyMetrics"}
        | {"haPopulateNonLeaderDatastore", "cpuPrefixProducer", "cpuPrefixProducr"}
    )
    words = {word for remedy in remedies() for word in re.findall(r"\b[a-z]+(?:[A-Z][a-z]+)+\b", remedy)}

    assert words - known - {"v1alpha1"} == set()


def test_every_plugin_type_of_a_remedy_exists():
    found = {w for r in remedies() for w in re.findall(r"\b[a-z]+(?:-[a-z]+)+\b", r)}

    assert {word for word in found if word.endswith(("-scorer", "-picker", "-handler", "-producer"))} <= (
        TYPES.keys() | UNBUILT_TYPES
    )


def test_every_flag_of_the_settings_texts_exists():
    texts = [text for leaf in leaves() for text in (leaf.rules.doc, leaf.rules.absent)]

    assert {flag for text in texts for flag in re.findall(r"--[a-z-]+", text)} <= FLAGS


def test_every_setting_that_a_text_names_exists():
    paths = {leaf.path.rpartition(".")[2] for leaf in leaves()}
    texts = [text for leaf in leaves() for text in (leaf.rules.doc, leaf.rules.absent)]
    words = {word for text in texts for word in re.findall(r"\b[a-z]+(?:[A-Z][a-z]+)+\b", text)}

    assert words <= paths


def test_every_command_that_a_message_names_exists():
    sources = " ".join(path.read_text() for path in (ROOT / "epp" / "config").glob("*.py"))

    assert set(re.findall(r"`epp ([a-z-]+)", sources)) <= COMMANDS.keys()


def test_no_unbuilt_type_is_built():
    assert TYPES.keys() & UNBUILT_TYPES == set()
