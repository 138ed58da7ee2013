"""Command lines of the Go endpoint picker, as its charts and its conformance suite write them."""

import pytest

from epp.cli import main
from epp.cli.go_flags import PICKER_PORTS, help_text, translate
from epp.errors import ConfigError

# Gateway API Inference Extension, conformance/resources/base.yaml.
CONFORMANCE = "--pool-name p --pool-namespace ns --zap-encoder json --grpc-port 9002 --grpc-health-port 9003"


def test_the_conformance_suites_command_line_is_a_pickers():
    found = translate(CONFORMANCE.split(), bare=True)

    assert found.words == (
        "--pool-name=p",
        "--kubernetes-namespace=ns",
        "--log-format=json",
        "--grpc-port=9002",
        "--grpc-health-port=9003",
    )
    assert found.notices == ()
    assert found.picker


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("-grpc-port=1", ["--grpc-port=1"]),
        ("--grpc-port 1", ["--grpc-port=1"]),
        ("--metrics-port 9", ["--metrics-port=9"]),
        ("--config-file f.yaml", ["--config-file=f.yaml"]),
        ("--secure-serving", ["--secure-serving=true"]),
        ("-secure-serving=F", ["--secure-serving=false"]),
        ("--cert-path /certs", ["--cert-path=/certs"]),
        ("--v 1", []),
        ("-v=5", ["--log-level=debug"]),
        ("--zap-log-level error", ["--log-level=error"]),
        ("--zap-log-level 3", ["--log-level=debug"]),
        ("--zap-log-level loud", ["--log-level=loud"]),
        ("--zap-encoder console", ["--log-format=human"]),
        ("--tls-min-version VersionTLS13", ["--tls-min-version=1.3"]),
        ("--tls-min-version 1.2", ["--tls-min-version=1.2"]),
        ("--disable-endpoint-subset-filter", ["--grpc-subset-hint=false"]),
        ("--disable-endpoint-subset-filter=false", ["--grpc-subset-hint=true"]),
        ("--total-queued-requests-metric q{a=b}", ["--total-queued-requests-metric=q{a=b}"]),
        ("--kv-cache-usage-percentage-metric=k", ["--kv-cache-usage-percentage-metric=k"]),
        ("--metrics-endpoint-auth", ["--metrics-endpoint-auth=true"]),
        ("--metrics-endpoint-auth=false", ["--metrics-endpoint-auth=false"]),
        ("--model-server-metrics-port=0", []),
        ("--lora-info-metric=vllm:lora_requests_info", []),
        ("--enable-pprof", []),
        ("--health-checking=true", []),
        (
            "--pool-group inference.networking.x-k8s.io",
            ["--kubernetes-pool-group=inference.networking.x-k8s.io"],
        ),
        ("--endpoint-selector app=vllm,tier=gpu", ["--kubernetes-selector=app=vllm,tier=gpu"]),
        ("--endpoint-target-ports 8000,8001", ["--kubernetes-ports=8000,8001"]),
        ("--kubeconfig=/k", ["--kubernetes-kubeconfig=/k"]),
        ("--ha-enable-leader-election", ["--kubernetes-leader-election=true"]),
    ],
)
def test_flags_become_ours_without_a_word(given, ours):
    found = translate(given.split(), bare=True)

    assert found.words == tuple(ours)
    assert found.notices == ()


@pytest.mark.parametrize(
    ("given", "notice"),
    [
        ("--tracing", "--tracing has no effect: no traces are sent"),
        ("--zap-anything=3", "--zap-anything has no effect: it is the Go picker's logger's"),
        ("--emit-endpoint-scores", "--emit-endpoint-scores has no effect: scores stand in receipts"),
    ],
)
def test_what_has_no_effect_is_told(given, notice):
    found = translate(given.split(), bare=True)

    assert found.words == ()
    assert found.notices == (notice,)


@pytest.mark.parametrize(
    "given",
    [
        "--lora-info-metric other",
        "--cache-info-metric other",
        "--model-server-metrics-port 9400",
        "--metrics-client-ca-file ca.pem",
    ],
)
def test_what_cannot_be_followed_is_refused(given):
    with pytest.raises(ConfigError, match=given.split()[0]):
        translate(given.split(), bare=True)


@pytest.mark.parametrize(
    ("words", "bare", "picker"),
    [
        ("--endpoint http://a:1 --port 8080", True, False),
        ("--drain-timeout 5s", True, False),
        ("--grpc-port 1", False, False),
        ("--grpc-port 1", True, True),
        ("--v 2", True, True),
        ("--pool-name p", False, True),
        ("", True, False),
    ],
)
def test_who_is_a_picker(words, bare, picker):
    assert translate(words.split(), bare=bare).picker is picker


def test_other_words_pass():
    words = ["--endpoint", "http://a:1,v=2", "--port=1", "-h", "v", "--upstream-idle-timeout", "3"]

    assert translate(words, bare=True).words == tuple(words)


def test_a_flag_without_its_value_is_an_empty_one():
    assert translate(["--grpc-port"], bare=True).words == ("--grpc-port=",)


@pytest.fixture
def served(monkeypatch):
    """The settings with which `epp serve` would serve."""
    seen = []
    monkeypatch.setattr("epp.cli.serve.serve", lambda settings, *_args, **_more: seen.append(settings))
    monkeypatch.setattr("os.environ", {})
    return seen


def test_a_picker_listens_where_the_go_picker_does(served):
    assert main(["--pool-name", "p", "--endpoint", "http://10.0.0.1:8000"]) == 0

    [settings] = served
    assert (settings.grpc.port, settings.grpc.health_port, settings.admin_port) == (9002, 9003, 9090)
    assert settings.pool_name == "p"
    assert PICKER_PORTS == {"grpc.port": 9002, "grpc.healthPort": 9003, "adminPort": 9090}


def test_a_pickers_ports_can_be_given(served):
    ports = ["--grpc-port=1", "--grpc-health-port=0", "--metrics-port=3"]
    main([*ports, "--endpoint", "http://10.0.0.1:8000"])

    [settings] = served
    assert (settings.grpc.port, settings.grpc.health_port, settings.admin_port) == (1, 0, 3)


def test_a_plain_command_opens_one_port(served):
    main(["serve", "--port", "8000", "--endpoint", "http://10.0.0.1:8000"])

    [settings] = served
    assert (settings.grpc.port, settings.grpc.health_port, settings.admin_port) == (0, 0, 0)


def test_notices_go_to_standard_error(served, capsys):
    main(["--tracing", "--endpoint", "http://10.0.0.1:8000"])

    assert capsys.readouterr().err == "epp: --tracing has no effect: no traces are sent\n"


def test_a_pool_that_is_named_is_read_from_kubernetes(served):
    assert main(CONFORMANCE.split()) == 0

    [settings] = served
    assert (settings.kubernetes.pool, settings.kubernetes.namespace) == ("p", "ns")
    assert settings.kubernetes.pool_group == "inference.networking.k8s.io"


def test_with_endpoints_a_pools_name_is_only_a_name(served):
    main(["--pool-name=p", "--endpoint=http://10.0.0.1:8000"])

    [settings] = served
    assert settings.kubernetes.pool is None


def test_a_picker_that_nobody_tells_of_endpoints_ends_with_2(served, capsys):
    assert main(["--grpc-port=9002"]) == 2

    told = capsys.readouterr().err
    assert "no endpoint is configured" in told
    assert "--kubernetes-pool" in told
    assert served == []


def test_metric_names_of_the_command_line_reach_the_settings(served):
    main(
        [
            "--total-queued-requests-metric=my:q",
            "--total-running-requests-metric=my:r",
            "--kv-cache-usage-percentage-metric=my:k",
            "--endpoint=http://10.0.0.1:8000",
        ]
    )

    [settings] = served
    names = settings.metrics
    assert (names.waiting_name, names.running_name, names.kv_usage_name) == ("my:q", "my:r", "my:k")


def test_help_lists_every_flag_of_the_go_picker():
    text = help_text()

    for name in (
        "grpc-port",
        "metrics-endpoint-auth",
        "endpoint-selector",
        "kubeconfig",
        "tls-cipher-suites",
        "v,",
    ):
        assert f"--{name}" in text
