"""Endpoint files: ours, and the Go picker's."""

import pytest

from epp.config.endpoint_file import read_endpoint_file
from epp.errors import ConfigError

GO = """
endpoints:
  - name: vllm-0
    address: "10.0.0.1"
    port: "8000"
    labels:
      model: llama-3-8b
      rank: 0
  - name: vllm-1
    namespace: inference
    address: 10.0.0.2
    port: 8000
"""


def urls(text):
    return [spec.url for spec in read_endpoint_file(text)]


def problems(text):
    with pytest.raises(ConfigError) as raised:
        read_endpoint_file(text, "e.yaml")
    assert raised.value.source == "e.yaml"
    return [str(problem) for problem in raised.value.problems]


def test_the_go_pickers_format_is_read():
    one, two = read_endpoint_file(GO)

    assert (one.url, one.name, one.namespace, one.labels) == (
        "http://10.0.0.1:8000", "vllm-0", "default", {"model": "llama-3-8b", "rank": "0"},
    )  # fmt: skip
    assert (two.url, two.name, two.namespace, two.labels) == (
        "http://10.0.0.2:8000",
        "vllm-1",
        "inference",
        {},
    )


def test_json_is_as_good_as_yaml():
    assert urls('{"endpoints": [{"name": "a", "address": "10.0.0.1", "port": "8000"}]}') == [
        "http://10.0.0.1:8000"
    ]
    assert urls('\t["http://a:1",\n\t{"url": "http://b:2"}]') == ["http://a:1", "http://b:2"]


@pytest.mark.parametrize("address", ["fd00::10", '"fd00::10"'])
def test_ipv6_and_names_are_addresses_here(address):
    assert urls(
        f"endpoints:\n- {{name: a, address: {address}, port: 8000}}\n- {{address: vllm-1.svc, port: 80}}"
    ) == [
        "http://[fd00::10]:8000",
        "http://vllm-1.svc:80",
    ]


def test_our_format_is_a_list_of_urls_bare_or_with_labels():
    specs = read_endpoint_file(
        """
        - http://10.0.0.1:8000
        - https://vllm:8443,zone=a
        - url: http://[fd00::10]:8000
          labels: {zone: b, note: "a, b"}
        - {url: "http://10.0.0.2:8000,zone=c", labels: {rack: 7}}
        """
    )

    assert [(s.url, s.labels) for s in specs] == [
        ("http://10.0.0.1:8000", {}),
        ("https://vllm:8443", {"zone": "a"}),
        ("http://[fd00::10]:8000", {"zone": "b", "note": "a, b"}),
        ("http://10.0.0.2:8000", {"zone": "c", "rack": "7"}),
    ]
    assert [s.namespace for s in specs] == ["", "", "", ""]


def test_the_forms_may_be_mixed_under_the_key_or_without_it():
    text = "[http://a:1, {url: 'http://b:1'}, {address: c, port: 1}]"

    assert urls(text) == urls(f"endpoints: {text}") == ["http://a:1", "http://b:1", "http://c:1"]


@pytest.mark.parametrize("text", ["[]", "endpoints: []", '{"endpoints": []}'])
def test_an_empty_list_has_no_endpoints(text):
    assert read_endpoint_file(text) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "document: is empty; write endpoints: [] to say that there is none"),
        ("# nothing\n---\n", "document: is empty; write endpoints: [] to say that there is none"),
        ("endpoints:\n", "endpoints (line 1): is missing; write endpoints: [] to say that there is none"),
        (
            "hello",
            ("document (line 1): must be a list, not hello; write a list of URLs, of mappings with url, or of mappings "
            "with name, address and port"),
        ),
        ("endpoints: {a: 1}", "endpoints (line 1): must be a list, not a mapping"),
        ("- a:1\n---\n- b:1", "document (line 3): is followed by another one; keep one"),
        ("endpoint: []", "endpoint (line 1): unknown key 'endpoint'; did you mean 'endpoints'? known keys here: endpoints"),
        ("- [a]", "endpoints[0] (line 1): must be a string, not a list"),
        ("- http://a:1\n- A:1\n", "endpoints[1] (line 2): endpoint a:1 is given twice; keep one of them"),
        ("- http://a:1/v1", "endpoints[0] (line 1): the endpoint goes on after the port with '/v1'; give scheme, host and port only, request paths are kept as clients send them"),
        ("- {url: 'a:1,x=1', labels: {x: 2}}", "endpoints[0] (line 1): label 'x' is given twice"),
        ("- {url: 'a:1', name: b}", "endpoints[0].name (line 1): unknown key 'name'; known keys here: url, labels"),
        ("- {name: a, port: 1}", "endpoints[0].address (line 1): is missing; write a list of URLs, of mappings with url, or of mappings with name, address and port"),
        ("- {name: a, address: b}", "endpoints[0].port (line 1): is missing; write a list of URLs, of mappings with url, or of mappings with name, address and port"),
        ("- {address: [b], port: 1}", "endpoints[0].address (line 1): must be a string, not a list"),
        ("- {address: '10.0.0.1:80', port: 1}", "endpoints[0].address (line 1): '10.0.0.1:80' is not an address; write an IP address or a host name alone"),
        ("- {address: 'http://b', port: 1}", "endpoints[0].address (line 1): 'http://b' is not an address; write an IP address or a host name alone"),
        ("- {address: b, port: 0}", "endpoints[0].port (line 1): must be a number from 1 to 65535, not 0"),
        ("- {address: b, port: '65536'}", "endpoints[0].port (line 1): must be a number from 1 to 65535, not the string '65536'"),
        ("- {address: b, port: [1]}", "endpoints[0].port (line 1): must be a number from 1 to 65535, not a list"),
        ("- {address: b, port: 1, labels: [x]}", "endpoints[0].labels (line 1): must be a mapping, not a list"),
        ("- {address: b, port: 1, weight: 1}", "endpoints[0].weight (line 1): unknown key 'weight'; known keys here: name, namespace, address, port, labels"),
        (
            "- {name: n, address: a, port: 1}\n- {name: n, address: b, port: 1}\n- {name: n, namespace: x, address: c, port: 1}",
            "endpoints[1] (line 2): name 'n' is given twice in namespace 'default'; give each endpoint a name of its own",
        ),
        ("- {a: 1, a: 2, url: 'x:1'}", "[0].a (line 1): is given twice, on line 1 and on line 1; keep one of them"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text, problem):
    assert problem in problems(text)


def test_every_fault_is_told_at_once():
    assert len(problems("- http://a:1/x\n- {address: b}\n- ftp://c\n")) == 3


def test_what_is_no_yaml_is_told_with_the_line():
    (problem,) = problems("endpoints:\n- [a\n")

    assert problem.startswith("document (line 3): is not valid YAML")
