"""Settings of certificates, keys and trusted proxies."""

import argparse
from ipaddress import ip_network

import pytest

from epp.config.flags import add_settings_flags
from epp.config.report import settings_as_dict
from epp.config.security_settings import AdminTlsSettings, ApiKeySettings, EndpointTlsSettings, TlsSettings
from epp.config.settings import leaves
from epp.config.settings_load import load_settings
from epp.errors import ConfigError
from epp.security import parse_key


def load(flags="", environ=None, text=None):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_settings_flags(parser)
    words = flags.split() + ([] if text is None else ["--settings", "s.yaml"])
    return load_settings(parser.parse_args(words), environ or {}, lambda _: text)[0]


def problems(flags="", environ=None, text=None):
    with pytest.raises(ConfigError) as raised:
        load(flags, environ, text)
    return [str(problem) for problem in raised.value.problems]


def test_sections_within_sections_are_read_from_the_file():
    settings = load(
        text="""\
upstream:
  idleTimeout: 7s
  tls: {ca: ca.pem, cert: c.pem, key: k.pem, serverName: vllm.internal}
tls:
  cert: /tls/tls.crt
  key: /tls/tls.key
  clientCa: /tls/ca.crt
  minVersion: 1.3
adminPort: 9090
adminTls: {enabled: false}
apiKeys: {file: keys, metrics: true}
"""
    )

    assert settings.upstream.idle_timeout_s == 7.0
    assert settings.upstream.tls == EndpointTlsSettings("ca.pem", "c.pem", "k.pem", "vllm.internal")
    assert settings.tls == TlsSettings("/tls/tls.crt", "/tls/tls.key", "/tls/ca.crt", "1.3")
    assert settings.admin_tls == AdminTlsSettings(enabled=False)
    assert settings.api_keys == ApiKeySettings(file="keys", metrics=True)


def test_flags_and_variables_of_an_inner_section_are_named_after_the_whole_path():
    settings = load("--upstream-tls-insecure-skip-verify", {"EPP_UPSTREAM_TLS_SERVER_NAME": "vllm"})

    assert settings.upstream.tls == EndpointTlsSettings(server_name="vllm", insecure_skip_verify=True)
    [leaf] = [leaf for leaf in leaves() if leaf.path == "upstream.tls.serverName"]
    assert (leaf.flag, leaf.variable) == ("--upstream-tls-server-name", "EPP_UPSTREAM_TLS_SERVER_NAME")


def test_an_unknown_key_of_an_inner_section_is_told_with_its_path():
    assert problems(text="upstream:\n  tls: {caFile: x}\n") == [
        "s.yaml: upstream.tls.caFile (line 2): unknown key 'caFile'; known keys here: ca, cert, key, serverName, insecureSkipVerify"
    ]


KEYS = (parse_key("a=one"), parse_key("two"))
NETWORKS = (ip_network("10.0.0.0/8"), ip_network("::1/128"))


@pytest.mark.parametrize(
    "given",
    [
        {
            "flags": "--api-keys-key a=one --api-keys-key two --trusted-proxies 10.0.0.0/8 --trusted-proxies ::1"
        },
        {"environ": {"EPP_API_KEYS_KEY": " a=one  two ", "EPP_TRUSTED_PROXIES": "10.0.0.0/8 ::1"}},
        {"text": "apiKeys:\n  key:\n  - a=one\n  - two\ntrustedProxies: [10.0.0.0/8, '::1']\n"},
    ],
    ids=["flags", "variables", "file"],
)
def test_lists_are_read_from_every_source(given):
    settings = load(**given)

    assert settings.api_keys.key == KEYS
    assert settings.trusted_proxies == NETWORKS


def test_one_value_need_not_be_a_list():
    settings = load(text="apiKeys: {key: two}\ntrustedProxies: 10.0.0.0/8\n")

    assert (settings.api_keys.key, settings.trusted_proxies) == (KEYS[1:], NETWORKS[:1])


def test_faulty_keys_and_networks_are_told_and_keys_are_not_repeated():
    text = "apiKeys: {key: [fine, 'hunter2 hunter2', [x]]}\ntrustedProxies: [10.0.0.1/8, proxy]\n"

    found = problems("--api-keys-key sha256:hunter2", text=text)

    assert found == [
        "s.yaml: trustedProxies[0] (line 2): '10.0.0.1/8' names a host in a network; write 10.0.0.0/8 or 10.0.0.1",
        "s.yaml: trustedProxies[1] (line 2): 'proxy' is no network; write one like 10.0.0.0/8 or 2001:db8::/32",
        "s.yaml: apiKeys.key[1] (line 1): a key must be printable ASCII without blanks, and not empty",
        "s.yaml: apiKeys.key[2] (line 1): must be a string, not a list",
        "--api-keys-key: sha256: must be followed by 64 hexadecimal digits",
    ]


def test_keys_are_shown_as_stars_and_networks_as_they_are_written():
    settings = load(
        "--api-keys-key a=hunter2 --api-keys-key hunter3 --trusted-proxies 10.0.0.0/8 --trusted-proxies ::1"
    )
    shown = settings_as_dict(settings, {leaf.path: "" for leaf in leaves()})

    assert shown["apiKeys.key"]["value"] == "a=*** ***"
    assert shown["trustedProxies"]["value"] == "10.0.0.0/8 ::1/128"
    assert "hunter" not in repr(settings)


@pytest.mark.parametrize("text", ["apiKeys: hunter2", "apiKeys: 'hunter2'", "apiKeys: [hunter2]", "apiKeys: {key: {a: hunter2}}",
                                  "adminKey: [hunter2]", "endpointKey: {hunter: hunter2}", "endpointKey: 'hunter2"])  # fmt: skip
def test_a_key_that_stands_in_the_wrong_shape_is_not_shown(text):
    with pytest.raises(ConfigError) as refused:
        load(text=text + "\n")

    assert "s.yaml: " in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--tls-cert c", ["tls.cert: is given without tls.key; give both"]),
        ("--tls-key k", ["tls.key: is given without tls.cert; give both"]),
        (
            "--admin-port 1 --admin-tls-key k",
            ["adminTls.key: is given without adminTls.cert; give both"],
        ),
        ("--upstream-tls-cert c", ["upstream.tls.cert: is given without upstream.tls.key; give both"]),
        ("--tls-client-ca a", ["tls.clientCa: needs tls.cert; give tls.cert, or leave tls.clientCa out"]),
        (
            "--admin-port 1 --admin-tls-client-ca a",
            [
                "adminTls.clientCa: needs tls.cert or adminTls.cert; give tls.cert or adminTls.cert, or leave adminTls.clientCa out"
            ],
        ),
        (
            "--admin-tls-cert c --admin-tls-key k",
            ["adminTls.cert: needs adminPort; give adminPort, or leave adminTls.cert out"],
        ),
        (
            "--tls-cert c --tls-key k --admin-port 1 --admin-tls-enabled=false --admin-tls-client-ca a",
            [
                "adminTls.clientCa: needs adminTls.enabled; give adminTls.enabled, or leave adminTls.clientCa out"
            ],
        ),
        (
            "--upstream-tls-ca a --upstream-tls-insecure-skip-verify",
            ["upstream.tls.ca: has no effect beside upstream.tls.insecureSkipVerify; leave one of them out"],
        ),
    ],
)
def test_settings_of_certificates_that_do_not_go_together_are_refused(flags, expected):
    assert problems(flags) == expected


@pytest.mark.parametrize(
    "flags",
    [
        "--tls-cert c --tls-key k --tls-client-ca a --admin-port 1 --admin-tls-client-ca b",
        "--admin-port 1 --admin-tls-cert c --admin-tls-key k --admin-tls-client-ca b",
        "--upstream-tls-insecure-skip-verify --upstream-tls-server-name x --upstream-tls-cert c --upstream-tls-key k",
    ],
)
def test_settings_of_certificates_that_go_together_are_taken(flags):
    load(flags)
