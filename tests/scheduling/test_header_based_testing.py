"""header-based-testing-filter: a request names the endpoints that may take it."""

import pytest

from epp.endpoints.types import Endpoint, EndpointSpec
from epp.scheduling.filters.header_based_testing import HeaderBasedTestingFilter
from epp.scheduling.registry import NoParameters
from tests.scheduling.builders import context, cycle

POOL = tuple(
    Endpoint(slot, 1, EndpointSpec("http", host, port))
    for slot, (host, port) in enumerate(
        [
            ("10.0.0.1", 3000),
            ("10.0.0.1", 3002),
            ("10.0.0.2", 3000),
            ("2001:db8::7", 3000),
            ("Vllm-1.local", 3000),
        ]
    )
)
ALL = [0, 1, 2, 3, 4]


def kept(header):
    plugin = HeaderBasedTestingFilter.build("f", NoParameters(), context())
    headers = {} if header is None else {"test-epp-endpoint-selection": header}
    return [e.slot for e in plugin.filter(cycle(POOL, headers=headers))]


@pytest.mark.parametrize(
    "header, slots",
    [
        ("10.0.0.1", [0, 1]),
        ("10.0.0.1:3002", [1]),
        ("10.0.0.2:3000,10.0.0.1:3000", [0, 2]),
        (" 10.0.0.2 , 10.0.0.1:3002 ", [1, 2]),
        ("2001:db8::7", [3]),
        ("[2001:db8::7]", [3]),
        ("[2001:db8::7]:3000", [3]),
        ("[2001:0DB8:0::0007]:3000", [3]),
        ("vllm-1.LOCAL:3000", [4]),
        ("10.0.0.9,10.0.0.2", [2]),
    ],
)
def test_hosts_with_and_without_port(header, slots):
    assert kept(header) == slots


@pytest.mark.parametrize(
    "header",
    [None, "", ",", "10.0.0.9", "256.256.256.256", "10.0.0.1:80", "10.0.0.1:x", "[2001:db8::7]:80", "["],
)
def test_without_a_known_endpoint_all_are_kept(header):
    assert kept(header) == ALL
