"""How operators write DNS names, and what they are told when it is wrong."""

import pytest

from epp.endpoints.dns_name import parse_dns_name


@pytest.mark.parametrize(
    "text, scheme, name, port, url",
    [
        ("http://vllm.internal:8000", "http", "vllm.internal", 8000, "http://vllm.internal:8000"),
        ("vllm:8000", "http", "vllm", 8000, "http://vllm:8000"),
        ("https://Vllm.Internal", "https", "vllm.internal", 443, "https://vllm.internal:443"),
        ("http://vllm.default.svc.", "http", "vllm.default.svc.", 80, "http://vllm.default.svc.:80"),
        ("srv+http://_http._tcp.vllm", "http", "_http._tcp.vllm", None, "srv+http://_http._tcp.vllm"),
        (" srv+https://_http._tcp.vllm/ ", "https", "_http._tcp.vllm", None, "srv+https://_http._tcp.vllm"),
    ],
)
def test_scheme_name_and_port_are_read(text, scheme, name, port, url):
    found = parse_dns_name(text)

    assert (found.scheme, found.name, found.port, found.url) == (scheme, name, port, url)
    assert found.labels == {}


def test_labels_follow_after_commas():
    assert parse_dns_name("http://vllm:8000,zone=a, role=decode").labels == {"zone": "a", "role": "decode"}


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "",
            "the DNS name is empty; write it like http://vllm.internal:8000 or srv+http://_http._tcp.vllm.internal",
        ),
        ("srv+", "the DNS name is empty; write it like"),
        ("ftp://vllm", "scheme 'ftp' is not http or https; write it like http://vllm.internal:8000"),
        ("http://vllm:8000/v1", "the DNS name goes on after the port with '/v1'"),
        ("http://10.0.0.1:8000", "10.0.0.1 is an address, not a name; give it as an endpoint"),
        ("http://[fd00::1]:8000", "fd00::1 is an address, not a name; give it as an endpoint"),
        ("srv+http://_http._tcp.vllm:80", "SRV records tell the port, leave :80 out; write it like"),
        ("http://user:secret@vllm:80", "the DNS name holds credentials"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(ValueError) as error:
        parse_dns_name(text)

    assert message in str(error.value)
    assert "secret" not in str(error.value)
