"""docs/configuration.md says what the code does."""

import argparse
import re

import pytest

from epp.cli import main
from epp.config.catalog import default_registry
from epp.config.compatibility import (
    DATA_LAYER_KEYS,
    DEFAULT_PARSERS,
    FLOW_CONTROL_KEYS,
    UNBUILT_TYPES,
)
from epp.config.load import API_VERSIONS, load_config
from epp.config.settings import leaves
from epp.config.settings_load import load_settings
from epp.scheduling.registry import params_of
from tests.config.config_texts import ROOT
from tests.config.reference_tables import DOCUMENT, renewed

TEXT = DOCUMENT.read_text()


def test_the_tables_are_current():
    """Renew them with `.venv/bin/python -m tests.config.reference_tables`."""
    assert renewed(TEXT) == TEXT


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.path)
def test_every_setting_is_documented_with_key_flag_and_variable(leaf):
    assert f"| `{leaf.path}` | `{leaf.flag}`" in TEXT
    assert f"`{leaf.variable}`" in TEXT


def test_every_type_and_every_parameter_is_documented():
    for plugin_type in default_registry().types():
        assert f"`{plugin_type.type}`" in TEXT
        for key in params_of(plugin_type.parameters):
            assert f"`{key}`" in TEXT


def test_everything_that_is_known_but_unbuilt_or_meaningless_is_documented():
    keys = [*FLOW_CONTROL_KEYS, *UNBUILT_TYPES, "injectDefaults", "sources"]

    for key in keys:
        assert f"`{key}`" in TEXT, key
    for key in set(DATA_LAYER_KEYS) - {"injectDefaults", "sources"}:
        assert f"`dataLayer.{key}`" in TEXT, key
    for version in API_VERSIONS:
        assert version in TEXT
    assert {f"`{parser}`" for parser in DEFAULT_PARSERS} <= set(re.findall(r"`[a-z-]+`", TEXT))


def test_every_gate_is_documented():
    for gate in (
        "flowControl",
        "dataLayer",
        "prepareDataPlugins",
        "enableLegacyMetrics",
        "haPopulateNonLeaderDatastore",
    ):
        assert f"`{gate}`" in TEXT


def test_the_example_of_a_configuration_loads():
    (example,) = re.findall(r"```yaml\n(apiVersion.*?)```", TEXT, re.DOTALL)

    config = load_config(example)

    assert [(s.name, s.weight) for s in config.profiles[0].scorers] == [
        ("idle-first", 2.0),
        ("prefix-cache-scorer", 1.0),
    ]


def test_the_example_of_settings_loads():
    (example,) = re.findall(r"```yaml\n(# --settings.*?)```", TEXT, re.DOTALL)

    settings, _, _ = load_settings(argparse.Namespace(settings="s.yaml"), {}, lambda _: example)

    assert [spec.url for spec in settings.endpoint] == [
        "http://10.0.0.1:8000", "http://10.0.0.2:8000", "https://[2001:db8::7]:8000",
    ]  # fmt: skip
    assert (settings.upstream.first_byte_timeout_s, settings.max_request_bytes) == (600.0, 33_554_432)


def test_the_output_that_is_shown_is_what_epp_check_prints(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    ((command, shown),) = re.findall(r"```\n\$ (epp check .*?)\n(.*?)```", TEXT, re.DOTALL)

    assert main(command.split()[1:]) == 0

    printed = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    lines = {" ".join(line.split()) for line in shown.splitlines() if "…" not in line}
    assert lines <= printed


def test_every_file_that_is_linked_exists():
    for target in re.findall(r"\]\(\.\./([^)]+)\)", TEXT):
        assert (ROOT / target).exists(), target
