"""Settings of discovery: files, DNS names, intervals."""

import argparse

import pytest

from epp.config.flags import add_settings_flags
from epp.config.leaf import LeafKind
from epp.config.settings import Settings, leaves
from epp.config.settings_load import load_settings
from epp.config.values import show_value
from epp.errors import ConfigError

LEAVES = {leaf.path: leaf for leaf in leaves()}


def load(flags="", environ=None, file=None):
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)
    arguments = parser.parse_args(flags.split() + (["--settings", "s.yaml"] if file else []))
    return load_settings(arguments, environ or {}, lambda _: file)[0]


def problems(**given):
    with pytest.raises(ConfigError) as raised:
        load(**given)
    return [str(problem) for problem in raised.value.problems]


def names(settings):
    return [(name.url, dict(name.labels)) for name in settings.discovery.dns]


def test_nothing_is_discovered_by_default():
    found = Settings().discovery

    assert (found.file, found.dns) == (None, ())
    assert (found.file_interval_s, found.dns_min_interval_s, found.dns_max_interval_s) == (1.0, 5.0, 30.0)
    assert found.dns_confirmations == 3
    assert (Settings().config_interval_s, Settings().shadow_config) == (1.0, None)


@pytest.mark.parametrize(
    "given",
    [
        {"flags": "--discovery-dns http://a:1,zone=x --discovery-dns srv+http://_h._tcp.b"},
        {"environ": {"EPP_DISCOVERY_DNS": "http://a:1,zone=x  srv+http://_h._tcp.b"}},
        {"file": "discovery: {dns: ['http://a:1,zone=x', srv+http://_h._tcp.b]}"},
        {
            "file": "discovery:\n  dns:\n  - {url: 'http://a:1', labels: {zone: x}}\n  - srv+http://_h._tcp.b\n"
        },
    ],
)
def test_dns_names_may_be_several_from_every_source(given):
    assert names(load(**given)) == [("http://a:1", {"zone": "x"}), ("srv+http://_h._tcp.b", {})]


def test_one_name_need_not_be_a_list():
    assert names(load(file="discovery: {dns: http://a}")) == [("http://a:80", {})]


def test_names_are_shown_as_they_are_written():
    leaf = LEAVES["discovery.dns"]
    settings = load("--discovery-dns http://a:1,zone=x --discovery-dns srv+http://b")

    assert leaf.kind is LeafKind.DNS_NAMES
    assert show_value(leaf, settings.discovery.dns) == "http://a:1,zone=x srv+http://b"
    assert show_value(leaf, ()) == "none"


def test_files_and_intervals_have_the_usual_three_spellings():
    flags = (
        "--discovery-file e.yaml --discovery-file-interval 200ms --config-interval 0 --shadow-config s2.yaml"
    )
    settings = load(
        flags, environ={"EPP_DISCOVERY_DNS_MIN_INTERVAL": "2s"}, file="discovery: {dnsConfirmations: 5}"
    )

    assert settings.discovery.file == "e.yaml"
    assert settings.discovery.file_interval_s == 0.2
    assert settings.discovery.dns_min_interval_s == 2.0
    assert settings.discovery.dns_confirmations == 5
    assert (settings.config_interval_s, settings.shadow_config) == (0.0, "s2.yaml")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"flags": "--discovery-dns http://a:1 --discovery-dns http://A:1"},
            "--discovery-dns[1]: name http://a:1 is given twice; give it once, with all its labels",
        ),
        (
            {"flags": "--discovery-dns http://10.0.0.1:80"},
            "--discovery-dns: 10.0.0.1 is an address, not a name; give it as an endpoint",
        ),
        (
            {"file": "discovery: {dns: [[a]]}"},
            "s.yaml: discovery.dns[0] (line 1): must be a string, not a list",
        ),
        (
            {"flags": "--discovery-dns-min-interval 40s"},
            "discovery.dnsMaxInterval: 30s is less than discovery.dnsMinInterval (40s); write at least 40s",
        ),
        (
            {"flags": "--discovery-file-interval 0"},
            "--discovery-file-interval: must be at least 10ms, not 0; leave it out for the default (1s)",
        ),
        (
            {"flags": "--discovery-dns-confirmations 0"},
            "--discovery-dns-confirmations: must be at least 1, not 0; leave it out for the default (3)",
        ),
    ],
)
def test_what_is_wrong_is_said(given, problem):
    assert problems(**given) == [problem]
