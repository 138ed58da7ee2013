"""What users copy: Envoy accepts it, and it names ports and flags that there are."""

import argparse
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from epp.cli.go_flags import translate
from epp.config import add_settings_flags, load_settings
from epp.gateway.standalone.bootstrap import (
    CERTIFICATE_FILE,
    ENDPOINTS_FILE,
    BootstrapOptions,
    assignment,
    bootstrap,
    certificate,
)
from tests.certificates import Authority
from tests.e2e.kit import ROOT
from tests.envoy.kit import envoy_binary

STANDALONE = list(yaml.safe_load_all((ROOT / "deploy" / "standalone" / "epp-envoy.yaml").read_text()))


def validated(file):
    """What Envoy says of a configuration; "" when it accepts it."""
    command = [envoy_binary(), "--mode", "validate", "--disable-hot-restart", "-l", "error", "-c", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def written(folder, name, text):
    file = folder / name
    file.write_text(text)
    return file


def test_the_bootstrap_for_an_envoy_of_ones_own_is_valid(tmp_path):
    source = ROOT / "deploy" / "envoy"
    written(tmp_path, "endpoints.yaml", (source / "endpoints.yaml").read_text())
    text = (source / "envoy.yaml").read_text().replace("/etc/envoy", str(tmp_path))

    assert validated(written(tmp_path, "envoy.yaml", text)) == ""


def test_the_bootstrap_of_the_pod_is_valid(tmp_path):
    [config] = [document for document in STANDALONE if document["kind"] == "ConfigMap"]

    assert validated(written(tmp_path, "envoy.yaml", config["data"]["envoy.yaml"])) == ""


def test_the_pods_command_line_is_epps():
    [pod] = [document for document in STANDALONE if document["kind"] == "Deployment"]
    epp = pod["spec"]["template"]["spec"]["containers"][0]
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)
    words = translate(epp["args"][1:], bare=False).words

    settings, _, notices = load_settings(parser.parse_args(words), {}, lambda _: "")

    assert epp["args"][0] == "serve"
    assert notices == ()
    assert (settings.grpc.port, settings.grpc.health_port, settings.grpc.secure) == (9002, 9003, False)
    assert {port["containerPort"] for port in epp["ports"]} == {settings.port, settings.grpc.health_port}


@pytest.mark.parametrize("tls", [False, True])
def test_what_epp_gateway_generates_is_valid(tmp_path, tls):
    pair = Authority(tmp_path, "ca").issue()
    options = BootstrapOptions(
        host="127.0.0.1",
        port=0,
        directory=str(tmp_path),
        max_body_bytes=1 << 26,
        control_paths=["/readyz"],
        tls=tls,
        retries=0 if tls else 2,
        expose_endpoint=not tls,
    )
    pem = [Path(file).read_bytes() for file in (pair.key, pair.cert)]
    written(tmp_path, ENDPOINTS_FILE, json.dumps(assignment([])))
    written(tmp_path, CERTIFICATE_FILE, json.dumps(certificate(*pem)))

    assert validated(written(tmp_path, "envoy.json", json.dumps(bootstrap(options)))) == ""
