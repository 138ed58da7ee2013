"""The picker's port as the composition root makes it."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from epp.app.gateway import build_gateway, closed_through_gateway
from epp.app.runtime import Runtime
from epp.config import Settings, load_config
from epp.config.builtin import builtin_config
from epp.config.gateway_settings import GrpcSettings
from epp.config.path_rules import parse_path_rules
from epp.endpoints.spec import parse_endpoints
from epp.errors import ConfigError
from tests.certificates import Authority

CONFIG = load_config(builtin_config(), "default.yaml")


def settings(**grpc):
    return Settings(endpoint=parse_endpoints(["http://10.0.0.1:8000"]), grpc=GrpcSettings(**grpc))


def mount(folder):
    """A pair under the names of a mounted secret."""
    pair = Authority(folder, "ca").issue()
    for given, name in ((pair.cert, "tls.crt"), (pair.key, "tls.key")):
        (folder / name).write_bytes(Path(given).read_bytes())


@pytest.fixture
async def runtime():
    """Makes runtimes that are never started."""
    made = []

    def make(**grpc):
        made.append(Runtime(settings(**grpc), CONFIG))
        return made[-1]

    yield make
    for one in made:
        await one.stop()


async def test_without_a_port_there_is_none(runtime):
    assert build_gateway(runtime()) is None


async def test_without_grpc_it_says_what_to_install(runtime, monkeypatch):
    monkeypatch.setitem(sys.modules, "epp.gateway.server", None)

    with pytest.raises(ConfigError, match=r"pip install 'epp\[grpc\]'"):
        build_gateway(runtime(port=9002))


async def test_a_certificate_that_cannot_be_read_is_named(runtime, tmp_path):
    with pytest.raises(ConfigError, match=r"grpc\.certPath: .*tls\.key: No such file"):
        build_gateway(runtime(port=9002, cert_path=str(tmp_path)))


async def test_a_certificate_of_a_mounted_secret_is_watched(runtime, tmp_path):
    mount(tmp_path)
    made = runtime(port=9002, cert_path=str(tmp_path))

    assert build_gateway(made) is not None
    assert made.files.states == {"grpc.certPath": "in use"}


def test_administration_and_closed_paths_are_not_served():
    rules = parse_path_rules("deny /v1/audio/*")
    closed = closed_through_gateway(replace(settings(), path_rules=rules))

    assert closed("/sleep") == "engine administration is not served through a gateway"
    assert closed("/v1/audio/speech") == "this route is closed here"
    assert closed("/v1/chat/completions") == ""
