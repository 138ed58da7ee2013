"""Which sources settings and configuration ask for."""

import pytest

from epp.app.endpoint_sources import endpoint_sources, has_sources
from epp.config import Settings, load_config
from epp.config.settings import DiscoverySettings
from epp.discovery.alarm import Alarm
from epp.endpoints.dns_name import parse_dns_name
from epp.endpoints.spec import parse_endpoints

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
PLAIN = load_config(f"{HEAD}plugins: [{{type: queue-scorer}}]\n")
WITH_FILE = load_config(
    f"{HEAD}plugins: [{{type: queue-scorer}}, {{type: file-discovery, parameters: {{path: c.yaml}}}}]\n"
    "dataLayer: {discovery: {pluginRef: file-discovery}}\n"
)
DNS = (parse_dns_name("http://a:1"), parse_dns_name("srv+http://_h._tcp.b"))


def named(settings, config=PLAIN):
    return [source.name for source in endpoint_sources(settings, config, Alarm())]


def test_without_anything_there_are_none():
    assert named(Settings()) == []
    assert not has_sources(Settings(), PLAIN)


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        (Settings(endpoint=parse_endpoints(["a:1"])), PLAIN),
        (Settings(discovery=DiscoverySettings(file="e.yaml")), PLAIN),
        (Settings(discovery=DiscoverySettings(dns=DNS)), PLAIN),
        (Settings(), WITH_FILE),
    ],
)
def test_each_kind_is_a_source(settings, config):
    assert has_sources(settings, config)
    assert len(named(settings, config)) in (1, 2)


async def test_they_stand_in_the_order_in_which_they_decide():
    settings = Settings(
        endpoint=parse_endpoints(["a:1"]), discovery=DiscoverySettings(file="e.yaml", dns=DNS)
    )

    assert named(settings, WITH_FILE) == [
        "endpoint", "file e.yaml", "file c.yaml, read once", "dns http://a:1", "dns srv+http://_h._tcp.b",
    ]  # fmt: skip


async def test_one_file_named_twice_is_one_source():
    assert named(Settings(discovery=DiscoverySettings(file="c.yaml")), WITH_FILE) == ["file c.yaml"]


async def test_intervals_and_confirmations_reach_the_sources():
    found = DiscoverySettings(
        file="e.yaml",
        file_interval_s=2.0,
        dns=DNS[:1],
        dns_min_interval_s=3.0,
        dns_max_interval_s=4.0,
        dns_confirmations=5,
    )
    settings = Settings(discovery=found)
    file, name = endpoint_sources(settings, PLAIN, Alarm())

    assert file._interval_s == 2.0
    assert (name._policy.min_interval_s, name._policy.max_interval_s, name._policy.confirmations) == (
        3.0,
        4.0,
        5,
    )
