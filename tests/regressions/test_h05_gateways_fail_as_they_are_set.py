"""H05 (AG i2502, agentgateway i3473): FailOpen was not honoured. The Envoy of deploy/envoy, with epp stopped."""

import json

import pytest
import yaml

from tests.e2e.kit import ROOT, free_port
from tests.envoy.kit import Server, running_envoy

pytestmark = pytest.mark.envoy


def deployed(folder, server, *, fail_open):
    """deploy/envoy/envoy.yaml on free ports, in front of `server`, with a picker that is not there."""
    text = (ROOT / "deploy" / "envoy" / "envoy.yaml").read_text().replace("/etc/envoy", str(folder))
    config = yaml.safe_load(text)
    resources = config["static_resources"]
    config["admin"]["address"]["socket_address"]["port_value"] = 0
    address = resources["listeners"][0]["address"]["socket_address"]
    address.update(address="127.0.0.1", port_value=0)
    manager = resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    assert manager["http_filters"][0]["typed_config"]["failure_mode_allow"] is True  # as it is documented
    manager["http_filters"][0]["typed_config"]["failure_mode_allow"] = fail_open
    picker = resources["clusters"][0]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    picker["address"]["socket_address"]["port_value"] = free_port()
    host, _, port = server.address.rpartition(":")
    member = {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}}
    assignment = yaml.safe_load((ROOT / "deploy" / "envoy" / "endpoints.yaml").read_text())
    assignment["resources"][0]["endpoints"] = [{"lb_endpoints": [member]}]
    (folder / "endpoints.yaml").write_text(json.dumps(assignment))
    return config


@pytest.mark.parametrize(("fail_open", "status"), [(True, 200), (False, 500)])
async def test_a_gateway_without_its_picker_does_what_is_set(tmp_path, fail_open, status):
    forged = {"x-gateway-destination-endpoint": "127.0.0.1:1"}

    async with (
        Server() as server,
        running_envoy(tmp_path, deployed(tmp_path, server, fail_open=fail_open)) as gate,
    ):
        body = {"model": "m", "prompt": "x"}
        answers = [await gate.client.post("/v1/completions", json=body, headers=forged) for _ in range(3)]

    assert [a.status_code for a in answers] == [status] * 3
    assert all("x-gateway-destination-endpoint" not in asked.headers for asked in server.asked)
