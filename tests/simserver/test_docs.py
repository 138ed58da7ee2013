"""The documentation names everything that an operator can use."""

import argparse
from pathlib import Path

import pytest

from epp.cli import sim_server
from epp.simserver.app import _routes
from epp.simserver.core import SimCore
from epp.simserver.faults import BODY_FAULTS, HEAD_FAULTS
from epp.simserver.settings import SimSettings

DOCS = (Path(__file__).parents[2] / "docs" / "sim-server.md").read_text()


def flags():
    """Long flags of the command, from its own help."""
    subparsers = argparse.ArgumentParser().add_subparsers()
    sim_server.add_parser(subparsers)
    words = subparsers.choices["sim-server"].format_usage().replace("[", " ").replace("]", " ").split()
    return sorted({word for word in words if word.startswith("--")})


def test_the_command_has_the_flags_that_others_rely_on():
    assert {"--port", "--model", "--gpu-blocks", "--cpu-blocks", "--time-scale", "--stream-interval"} <= set(
        flags()
    )


@pytest.mark.parametrize("flag", flags())
def test_every_flag_is_documented(flag):
    assert f"| `{flag}` |" in DOCS


@pytest.mark.parametrize("path", sorted(_routes(SimCore(SimSettings(dev_mode=True, runtime_lora=True)))))
def test_every_route_is_documented(path):
    assert f"{path}`" in DOCS


@pytest.mark.parametrize("fault", ["status", "slow-head", *HEAD_FAULTS, *BODY_FAULTS])
def test_every_fault_is_documented(fault):
    assert f"| `{fault}" in DOCS
