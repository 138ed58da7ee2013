"""How operators write endpoints, and what they are told when it is wrong."""

import pytest

from epp.endpoints.spec import parse_endpoint, parse_endpoints


@pytest.mark.parametrize(
    "text, expected",
    [
        ("http://10.0.0.1:8000", ("http", "10.0.0.1", 8000)),
        ("https://vllm.example:8443/", ("https", "vllm.example", 8443)),
        ("HTTP://Vllm-0.Svc_a:8000", ("http", "vllm-0.svc_a", 8000)),
        ("10.0.0.1:8000", ("http", "10.0.0.1", 8000)),
        ("localhost:8000", ("http", "localhost", 8000)),
        ("http://vllm.example", ("http", "vllm.example", 80)),
        ("https://vllm.example", ("https", "vllm.example", 443)),
        ("http://[fd00::10]:8000", ("http", "fd00::10", 8000)),
        ("[::1]:65535", ("http", "::1", 65535)),
        ("  http://h:1  ", ("http", "h", 1)),
    ],
)
def test_scheme_host_and_port_are_read(text, expected):
    spec = parse_endpoint(text)

    assert (spec.scheme, spec.host, spec.port) == expected
    assert spec.labels == {}


@pytest.mark.parametrize(
    "text, address",
    [("http://10.0.0.1:8000", "10.0.0.1:8000"), ("http://[fd00::10]:8000", "[fd00::10]:8000")],
)
def test_the_address_brackets_ipv6_and_nothing_else(text, address):
    spec = parse_endpoint(text)

    assert spec.address == address
    assert spec.url == f"http://{address}"


def test_labels_follow_after_commas():
    spec = parse_endpoint("http://h:8000, zone = a ,role=decode,empty=,eq=a=b")

    assert spec.labels == {"zone": "a", "role": "decode", "empty": "", "eq": "a=b"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "the endpoint is empty; write it like http://10.0.0.1:8000 or"),
        (",zone=a", "the endpoint is empty"),
        ("ftp://h:8000", "scheme 'ftp' is not http or https"),
        ("http://h:8000/v1", "goes on after the port with '/v1'"),
        ("h:8000/v1", "goes on after the port with '/v1'"),
        ("http://h:8000?x=1", "goes on after the port with '?x=1'"),
        ("http://h:8000#f", "goes on after the port with '#f'"),
        ("http://h:0", "the port in 'h:0' is not a number from 1 to 65535"),
        ("http://h:65536", "the port in 'h:65536' is not a number from 1 to 65535"),
        ("http://h:80a0", "the port in 'h:80a0' is not a number from 1 to 65535"),
        ("http://:8000", "host '' is not a name or an address"),
        ("http://a b:8000", "host 'a b' is not a name or an address"),
        ("http://fe80::1%25eth0:8000", "the port in 'fe80::1%25eth0:8000' is not a number"),
        ("http://[fe80::1%eth0]:8000", "host 'fe80::1%eth0' is not a name or an address"),
        ("http://-h:8000", "host '-h' is not a name or an address"),
        ("http://[::1:8000", "the endpoint is not a URL"),
        ("http://h:8000,zone", "label 'zone' is not of the form key=value"),
        ("http://h:8000,=a", "label '=a' is not of the form key=value"),
        ("http://h:8000,", "label '' is not of the form key=value"),
        ("http://h:8000,a=1,a=2", "label 'a' is given twice"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(ValueError) as error:
        parse_endpoint(text)

    assert message in str(error.value)


def test_credentials_are_refused_without_repeating_them():
    with pytest.raises(ValueError, match="holds credentials") as error:
        parse_endpoint("http://user:SENTINEL-9f3@h:8000")

    assert "SENTINEL" not in str(error.value)


def test_several_endpoints_keep_their_order():
    specs = parse_endpoints(["http://b:1", "http://a:1"])

    assert [s.address for s in specs] == ["b:1", "a:1"]


def test_an_address_that_is_given_twice_is_refused():
    with pytest.raises(ValueError, match=r"endpoint a:80 is given twice"):
        parse_endpoints(["http://a,zone=1", "https://a:80,zone=2"])
