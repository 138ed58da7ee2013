"""Flags over environment over file over defaults; every fault at once."""

import argparse

import pytest

from epp.config.flags import add_settings_flags
from epp.config.leaf import Secret
from epp.config.settings import leaves
from epp.config.settings_load import load_settings
from epp.config.values import show_value
from epp.endpoints.types import EndpointSpec
from epp.errors import ConfigError
from epp.flow.admission import Objective


def load(flags="", environ=None, files=None):
    """Settings, sources, notices from a command line, an environment and files by name."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_settings_flags(parser)
    files = files or {}

    def read_file(name):
        if name not in files:
            raise FileNotFoundError(2, "No such file or directory")
        if isinstance(files[name], bytes):
            return files[name].decode()
        return files[name]

    return load_settings(parser.parse_args(flags.split()), environ or {}, read_file)


def problems(**sources):
    with pytest.raises(ConfigError) as raised:
        load(**sources)
    return [str(problem) for problem in raised.value.problems]


def file(text):
    return {"flags": "--settings s.yaml", "files": {"s.yaml": text}}


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default():
    settings, sources, _ = load(
        "--settings s.yaml --port 1",
        {"EPP_PORT": "2", "EPP_SEED": "2"},
        {"s.yaml": "port: 3\nseed: 3\npoolName: file\n"},
    )

    assert (settings.port, settings.seed, settings.pool_name, settings.host) == (1, 2, "file", "0.0.0.0")
    assert {path: sources[path] for path in ("port", "seed", "poolName", "host")} == {
        "port": "flag --port",
        "seed": "environment EPP_SEED",
        "poolName": "file s.yaml, line 3",
        "host": "default",
    }


def test_every_kind_is_read_from_a_flag():
    settings, _, _ = load(
        "--upstream-idle-timeout 2m --max-request-bytes 1MiB --access-log-enabled=false --allow-engine-admin "
        "--log-level debug --endpoint http://a:1,zone=x --endpoint b:2 --admin-key s3cret --config plugins.yaml"
    )

    assert settings.upstream.idle_timeout_s == 120.0
    assert settings.max_request_bytes == 1_048_576
    assert settings.access_log.enabled is False
    assert settings.allow_engine_admin is True
    assert settings.log.level == "debug"
    assert settings.endpoint == (EndpointSpec("http", "a", 1, {"zone": "x"}), EndpointSpec("http", "b", 2))
    assert settings.admin_key == Secret("s3cret")
    assert settings.config == "plugins.yaml"


def test_every_kind_is_read_from_the_environment():
    settings, _, _ = load(
        environ={
            "EPP_UPSTREAM_IDLE_TIMEOUT": "0.5",
            "EPP_CLIENT_MAX_HEAD_BYTES": "8KiB",
            "EPP_STREAM_ERROR_EVENT": "true",
            "EPP_ENDPOINT": " http://a:1,zone=x  http://[::1]:2 ",
        }
    )

    assert settings.upstream.idle_timeout_s == 0.5
    assert settings.client.max_head_bytes == 8192
    assert settings.stream.error_event is True
    assert [spec.address for spec in settings.endpoint] == ["a:1", "[::1]:2"]


def test_every_kind_is_read_from_the_file():
    settings, _, _ = load(
        **file("""\
host: 127.0.0.1
endpoint:
- http://a:1,zone=x
- url: https://b:2
  labels: {zone: y, llm-d.ai/role: decode}
adminKey: "0123"
accessLog:
  prefix: true
upstream:
  connectTimeout: 1.5
  totalTimeout: 1h
maxInflatedBytes: 1024
""")
    )

    assert settings.host == "127.0.0.1"
    assert settings.endpoint == (
        EndpointSpec("http", "a", 1, {"zone": "x"}),
        EndpointSpec("https", "b", 2, {"zone": "y", "llm-d.ai/role": "decode"}),
    )
    assert settings.admin_key == Secret("0123")
    assert settings.access_log.prefix is True
    assert (settings.upstream.connect_timeout_s, settings.upstream.total_timeout_s) == (1.5, 3600.0)
    assert settings.max_inflated_bytes == 1024


def test_one_endpoint_need_not_be_a_list():
    assert load(**file("endpoint: http://a:1\n"))[0].endpoint == (EndpointSpec("http", "a", 1),)
    assert load(**file("endpoint: {url: 'http://a:1'}\n"))[0].endpoint == (EndpointSpec("http", "a", 1),)


def test_the_flag_of_the_go_picker_is_an_alias():
    settings, sources, _ = load("--refresh-metrics-interval 50ms")

    assert settings.metrics.refresh_interval_s == 0.05
    assert sources["metrics.refreshInterval"] == "flag --metrics-refresh-interval"


def test_the_file_may_be_named_by_the_environment():
    assert load(environ={"EPP_SETTINGS": "s.yaml"}, files={"s.yaml": "port: 7\n"})[0].port == 7


def test_the_flag_names_the_file_before_the_environment():
    files = {"s.yaml": "port: 7\n", "t.yaml": "port: 8\n"}

    assert load("--settings s.yaml", {"EPP_SETTINGS": "t.yaml"}, files)[0].port == 7


@pytest.mark.parametrize("text", ["", "# nothing\n", "port: ~\nlog:\n"])
def test_an_empty_file_says_nothing(text):
    assert set(load(**file(text))[1].values()) == {"default"}


def test_every_fault_of_every_source_is_told_at_once():
    found = problems(
        flags="--settings s.yaml --port 99999 --log-level dbug --upstream-idle-timeout 3x --max-requests -1",
        environ={"EPP_SEED": "x", "EPP_ADMIN_KEY": "a b", "EPP_CLIENT_KEEP_ALIVE": "-5s"},
        files={
            "s.yaml": """\
upstrem: {}
upstream: {idleTimout: 4, idleTimeout: 1e3, connectTimeout: 0}
port: '80'
host: ''
accessLog: {enabled: 'false'}
client: {maxHeadBytes: 10, headTimeout: [1], maxHeaders: 0}
log: []
"""
        },
    )

    assert found == [
        "s.yaml: upstrem (line 1): unknown key 'upstrem'; did you mean 'upstream'? known keys here: host, port, adminPort, endpoint, config, configText, configInterval, shadowConfig, objective, modelRewrite, poolName, drainTimeout, maxRequestBytes, maxInflatedBytes, maxBufferedBytes, maxRequests, maxInflightPerEndpoint, slowStart, seed, record, recordMaxBytes, allowEngineAdmin, lane, pathRules, adminKey, adminKeyFile, endpointKey, endpointKeyFile, trustedProxies, tls, adminTls, apiKeys, discovery, kubernetes, log, accessLog, upstream, client, cors, retry, metrics, health, receipts, stream, grpc, state",
        "s.yaml: log (line 7): must be a mapping, not a list",
        "s.yaml: upstream.idleTimout (line 2): unknown key 'idleTimout'; did you mean 'idleTimeout'? known keys here: connectTimeout, firstByteTimeout, idleTimeout, totalTimeout, keepAlive, maxConnectionsPerEndpoint, tls",
        "s.yaml: port (line 3): must be a whole number, not the string '80'; write 80 without quotes",
        "s.yaml: host (line 4): must not be empty; leave it out for the default",
        "s.yaml: accessLog.enabled (line 5): must be true or false, not the string 'false'; write false without quotes",
        "s.yaml: upstream.idleTimeout (line 2): must be a duration such as 200ms, 5s, 2m or a plain number of seconds, not 1e3",
        "s.yaml: upstream.connectTimeout (line 2): must be at least 1ms, not 0; leave it out for the default (5s)",
        "s.yaml: client.maxHeadBytes (line 6): must be at least 1KiB, not 10; leave it out for the default (64KiB)",
        "s.yaml: client.headTimeout (line 6): must be a duration such as 200ms, 5s, 2m or a plain number of seconds, not a list",
        "s.yaml: client.maxHeaders (line 6): must be at least 1, not 0; leave it out for the default (200)",
        "EPP_ADMIN_KEY: must be printable ASCII without blanks, and not empty",
        "EPP_CLIENT_KEEP_ALIVE: must be a duration such as 200ms, 5s, 2m or a plain number of seconds, not -5s",
        "EPP_SEED: must be a whole number, not x",
        "--port: must be at most 65535, not 99999; leave it out for the default (8080)",
        "--max-requests: must be at least 0, not -1; leave it out for the default (0)",
        "--log-level: must be one of debug, info, warning, error, not dbug; did you mean 'debug'?",
        "--upstream-idle-timeout: must be a duration such as 200ms, 5s, 2m or a plain number of seconds, not 3x",
    ]


def test_a_wrong_value_in_the_file_is_told_even_if_a_flag_wins():
    assert problems(flags="--settings s.yaml --port 1", files={"s.yaml": "port: x\n"}) == [
        "s.yaml: port (line 1): must be a whole number, not x"
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"flags": "--objective batch=-1 --objective chat=10"},
        {"environ": {"EPP_OBJECTIVE": "batch=-1 chat=10"}},
        {"flags": "--settings s.yaml", "files": {"s.yaml": "objective: {batch: -1, chat: 10}\n"}},
        {"flags": "--settings s.yaml", "files": {"s.yaml": "objective: [batch=-1, chat=10]\n"}},
    ],
    ids=["flags", "variable", "mapping", "list"],
)
def test_objectives_in_every_form(given):
    settings, _, _ = load(**given)

    assert settings.objective == (Objective("batch", -1), Objective("chat", 10))
    leaf = next(leaf for leaf in leaves() if leaf.path == "objective")
    assert show_value(leaf, settings.objective) == "batch=-1 chat=10"


def test_one_objective_need_not_be_a_list():
    assert load(**file("objective: a=b=+3\n"))[0].objective == (Objective("a=b", 3),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("batch", "objective (line 1): is no objective: batch"),
        ("=1", "objective (line 1): is no objective: =1"),
        ("a=1.5", "objective (line 1): is no objective: a=1.5"),
        ("a=2147483648", "objective (line 1): is no objective: a=2147483648"),
        ("{a: high}", "objective.a (line 1): is no objective: high"),
        ("{a: [1]}", "objective.a (line 1): is no objective: a list"),
        ("{'a b': 1}", "objective.a b (line 1): is no objective: 1"),
        ("[[a]]", "objective[0] (line 1): is no objective: a list"),
    ],
)
def test_what_is_no_objective_is_told(text, problem):
    assert problems(**file(f"objective: {text}\n")) == [
        f"s.yaml: {problem}; write NAME=PRIORITY with a whole number, such as batch=-1"
    ]


def test_an_objective_is_given_once():
    assert problems(flags="--objective a=1 --objective a=2") == [
        "--objective[1]: objective a is given twice; give it once"
    ]


@pytest.mark.parametrize(
    ("endpoints", "problem"),
    [
        (
            "--endpoint http://a:1 --endpoint http://A:1",
            "--endpoint[1]: endpoint a:1 is given twice; give it once, with all its labels",
        ),
        (
            "--endpoint ftp://a:1",
            "--endpoint: scheme 'ftp' is not http or https; write it like http://10.0.0.1:8000 or http://10.0.0.1:8000,zone=a",
        ),
    ],
)
def test_a_faulty_endpoint_is_told(endpoints, problem):
    assert problems(flags=endpoints) == [problem]


def test_faulty_endpoints_of_a_file_are_told():
    assert problems(
        **file(
            "endpoint:\n- [a]\n- url: http://a:1/v1\n- {labels: [x]}\n- {url: 'http://b:1', labels: {a: [x]}}\n"
        )
    ) == [
        "s.yaml: endpoint[0] (line 2): must be a string, not a list",
        "s.yaml: endpoint[1] (line 3): the endpoint goes on after the port with '/v1'; give scheme, host and port only, request paths are kept as clients send them",
        "s.yaml: endpoint[2].labels (line 4): must be a mapping, not a list",
        "s.yaml: endpoint[2] (line 4): the endpoint is empty; write it like http://10.0.0.1:8000 or http://10.0.0.1:8000,zone=a",
        "s.yaml: endpoint[3].labels.a (line 5): must be a string, not a list",
    ]


def test_a_credential_that_is_no_string_is_told_without_it():
    assert problems(**file("adminKey: [s3cret]\n")) == [
        "s.yaml: adminKey (line 1): must be a string, not a list"
    ]


def test_a_second_document_in_the_file_is_refused():
    assert problems(**file("port: 1\n---\nport: 2\n")) == [
        "s.yaml: document (line 3): is followed by another one; keep one"
    ]


def test_a_file_that_cannot_be_read_is_told():
    assert problems(flags="--settings gone.yaml") == [
        "settings: cannot read gone.yaml: No such file or directory"
    ]
    assert problems(flags="--settings s.yaml", files={"s.yaml": b"\xff"}) == [
        "settings: cannot read s.yaml: it is not UTF-8"
    ]


def test_a_file_with_a_syntax_error_is_told_with_its_line():
    assert problems(**file("port: 1\n\tx: 2\n")) == [
        "s.yaml: document (line 2): is not valid YAML: found character '\\t' that cannot start any token (column 1); indent with spaces, not tabs"
    ]


def test_a_key_is_read_from_its_file():
    settings, sources, _ = load("--admin-key-file /run/key", files={"/run/key": "s3cret\n"})

    assert settings.admin_key == Secret("s3cret")
    assert settings.admin_key_file == "/run/key"
    assert sources["adminKey"] == "file /run/key"


def test_a_key_is_given_once():
    assert problems(flags="--endpoint-key-file k", environ={"EPP_ENDPOINT_KEY": "x"}, files={"k": "y"}) == [
        "endpointKey: is given beside endpointKeyFile; keep one: endpointKey comes from environment EPP_ENDPOINT_KEY, endpointKeyFile from flag --endpoint-key-file"
    ]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "adminKeyFile: cannot read k: No such file or directory"),
        ({"k": "\n"}, "adminKeyFile: must be printable ASCII without blanks, and not empty"),
        ({"k": "two words"}, "adminKeyFile: must be printable ASCII without blanks, and not empty"),
    ],
)
def test_a_key_file_must_hold_a_key(files, problem):
    assert problems(flags="--admin-key-file k", files=files) == [problem]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (
            "--port 80 --admin-port 80",
            "adminPort: is 80, the same as port; choose another, or 0 for no second listener",
        ),
        (
            "--metrics-refresh-interval 1s --metrics-staleness-threshold 2s",
            "metrics.stalenessThreshold: 2s is less than three times metrics.refreshInterval (1s); write at least 3s: every scrape would be stale before the next comes",
        ),
        (
            "--health-ejection-time 2m",
            "health.maxEjectionTime: 60s is less than health.ejectionTime (120s); write at least 120s",
        ),
        ("--metrics-path metrics", "metrics.path: must begin with /, not 'metrics'; write /metrics"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(flags, problem):
    assert problems(flags=flags) == [problem]


def test_port_0_twice_is_no_contradiction():
    assert load("--port 0 --admin-port 0")[0].port == 0


@pytest.mark.parametrize("flags", ["--metrics-refresh-interval 5s", "--metrics-staleness-threshold 1s"])
def test_interval_or_threshold_alone_contradict_nothing(flags):
    assert load(flags)[1]["port"] == "default"


def test_variables_of_kubernetes_services_are_ignored_with_one_notice():
    environ = {
        "EPP_PORT": "tcp://10.0.0.1:8080",
        "EPP_SERVICE_HOST": "10.0.0.1",
        "EPP_SERVICE_PORT": "8080",
        "EPP_SERVICE_PORT_HTTP": "8080",
        "EPP_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "EPP_PORT_8080_TCP_PROTO": "tcp",
        "EPP_PORT_8080_TCP_ADDR": "10.0.0.1",
        "EPP_ADMIN_PORT": "udp://10.0.0.2:9090",
        "EPP_METRICS_SERVICE_HOST": "10.0.0.2",
    }

    settings, _, notices = load(environ=environ)

    assert (settings.port, settings.admin_port) == (8080, 0)
    assert notices == (
        "ignored, as they describe a Kubernetes Service: EPP_ADMIN_PORT, EPP_METRICS_SERVICE_HOST, EPP_PORT, EPP_PORT_8080_TCP, EPP_PORT_8080_TCP_ADDR, EPP_PORT_8080_TCP_PROTO, EPP_SERVICE_HOST, EPP_SERVICE_PORT, EPP_SERVICE_PORT_HTTP",
    )


def test_a_port_that_is_a_number_is_a_setting():
    assert load(environ={"EPP_PORT": "9000"})[0].port == 9000


def test_an_unknown_variable_is_a_notice_with_a_guess():
    assert load(environ={"EPP_HOTS": "x", "EPP_ZZZZZZ": "x", "PATH": "x"})[2] == (
        "environment variable EPP_HOTS is no setting and is ignored; did you mean EPP_HOST?",
        "environment variable EPP_ZZZZZZ is no setting and is ignored",
    )


def test_an_empty_variable_counts_as_unset():
    settings, sources, notices = load(environ={"EPP_PORT": "", "EPP_CONFIG": "", "EPP_UNKNOWN": ""})

    assert (settings.port, settings.config, notices) == (8080, None, ())
    assert sources["port"] == "default"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            "--grpc-port 8080",
            "grpc.port: is 8080, the same as port; choose another, or 0 for no endpoint picker",
        ),
        (
            "--grpc-port 1 --grpc-health-port 1",
            "grpc.healthPort: is 1, the same as grpc.port; choose another, or 0 for no port of health checks",
        ),
        (
            "--grpc-health-port 1",
            "grpc.healthPort: is given without grpc.port; give grpc.port, or leave it out",
        ),
        ("--config a --config-text b", "configText: is given beside config; keep one of them"),
    ],
)
def test_settings_of_a_picker_that_contradict_each_other(flags, told):
    assert problems(flags=flags) == [told]


def test_defaults_of_a_command_go_before_the_settings_own_and_after_what_is_given():
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)
    arguments = parser.parse_args(["--grpc-port", "5"])

    settings, sources, _ = load_settings(
        arguments, {}, lambda _: "", {"grpc.port": 9002, "grpc.healthPort": 9003}
    )

    assert (settings.grpc.port, settings.grpc.health_port) == (5, 9003)
    assert sources["grpc.healthPort"] == "default"
