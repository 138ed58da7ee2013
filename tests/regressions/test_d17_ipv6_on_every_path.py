"""D17 (DY i12063, LR i2606): IPv6 was written as `addr:port`, parsed by the first colon, and forgotten on one path."""

import json

import pytest

from epp.config.endpoint_file import read_endpoint_file
from epp.director.pick import pick_now
from epp.director.types import RequestHead
from epp.endpoints.spec import parse_endpoint
from tests.director.core import Pool

BODY = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()


def pool_of(*specs):
    pool = Pool(n=0)
    pool.core.upkeep.sync_endpoints(specs, 0.0)
    return pool


@pytest.mark.parametrize(
    "specs",
    [
        [parse_endpoint("http://[fd00::10]:8000")],
        read_endpoint_file("- http://[fd00::10]:8000"),
        read_endpoint_file('endpoints: [{name: a, address: "fd00::10", port: "8000"}]'),
    ],
    ids=["flag", "file", "go-file"],
)
@pytest.mark.parametrize(
    ("method", "path", "body"), [("POST", "/v1/chat/completions", BODY), ("GET", "/v1/models", b"")]
)
def test_the_target_has_brackets_in_its_address_and_none_in_its_host(specs, method, path, body):
    pool = pool_of(*specs)
    exchange = pool.open(body, path=path, method=method)
    target = pool.director.pick(exchange, 1.0)
    told = pick_now(pool.director, RequestHead("", method, path), body, 2.0, commit=False)

    assert (target.address, target.host, target.port) == ("[fd00::10]:8000", "fd00::10", 8000)
    assert told.endpoints == ("[fd00::10]:8000",)
