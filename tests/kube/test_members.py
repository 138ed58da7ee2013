"""Which endpoints pods and pools stand for."""

import msgspec
import pytest

from epp.discovery.kubernetes.members import Members, endpoints_of, members_of, picker_of, port_mismatch
from epp.discovery.kubernetes.objects import Pod, Pool
from tests.kube.kit import pod, pool


def read(obj):
    return msgspec.convert(obj, Pod)


def told(obj, *ports):
    return [
        (s.address, s.name, s.namespace, s.uid, dict(s.labels))
        for s in endpoints_of(read(obj), ports or (8000,))
    ]


def test_a_ready_pod_is_an_endpoint():
    assert told(pod("a", "10.0.0.1")) == [("10.0.0.1:8000", "a", "ns", "uid-a", {"app": "vllm"})]


@pytest.mark.parametrize(
    "changes",
    [
        {"ready": "False"},
        {"ready": "Unknown"},
        {"phase": "Pending"},
        {"phase": "Succeeded"},
        {"phase": "Failed"},
        {"deleted": True},
    ],
)
def test_a_pod_that_is_not_ready_or_is_going_is_none(changes):
    assert told(pod("a", "10.0.0.1", **changes)) == []


@pytest.mark.parametrize("ip", [None, ""])
def test_a_pod_without_an_address_is_none(ip):
    assert told(pod("a", ip)) == []


def test_a_pod_without_conditions_is_none():
    bare = pod("a", "10.0.0.1")
    bare["status"]["conditions"] = None

    assert told(bare) == []


def test_each_port_is_a_rank():
    assert [(a, n) for a, n, *_ in told(pod("a", "fd00::1"), 8000, 8001)] == [
        ("[fd00::1]:8000", "a-rank-0"),
        ("[fd00::1]:8001", "a-rank-1"),
    ]


@pytest.mark.parametrize("key", ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"])
def test_active_ports_limit_the_ranks_and_keep_their_names(key):
    limited = pod("a", "10.0.0.1", annotations={key: " 8001, 9999"})

    assert [(a, n) for a, n, *_ in told(limited, 8000, 8001)] == [("10.0.0.1:8001", "a-rank-1")]


def test_active_ports_that_are_no_numbers_are_an_error():
    with pytest.raises(ValueError, match="active-ports is 'x'; write ports"):
        told(pod("a", "10.0.0.1", annotations={"llm-d.ai/active-ports": "x"}))


def test_a_restart_of_the_serving_container_is_another_incarnation():
    assert told(pod("a", "10.0.0.1", restarts=2))[0][3] == "uid-a+2"


def test_a_restart_of_a_sidecar_is_not():
    assert told(pod("a", "10.0.0.1", restarts=2, declares=(9000,)))[0][3] == "uid-a"


def test_a_pool_in_v1():
    members = members_of(msgspec.convert(pool(8000, 8001, labels={"b": "2", "a": "1"}), Pool))

    assert members == Members("a=1,b=2", (8000, 8001))


def test_a_pool_in_v1alpha2():
    spec = {"selector": {"app": "vllm"}, "targetPortNumber": 8000}

    members = members_of(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pool))

    assert members == Members("app=vllm", (8000,))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"targetPorts": None}, "spec.targetPorts has 0 ports; it needs 1 to 8"),
        ({"targetPorts": [{"number": n} for n in range(1, 10)]}, "has 9 ports"),
        ({"targetPorts": [{"number": 1}, {"number": 1}]}, r"are \[1, 1\]; they must differ"),
        ({"targetPorts": [{"number": 70000}]}, r"are \[70000\]"),
        ({"selector": {}}, "selects nothing"),
        ({"selector": {"matchLabels": {}}}, "selects nothing"),
        ({"selector": {"matchLabels": {"a": 1}}}, "no text"),
        ({"appProtocol": "kubernetes.io/h2c"}, "only http is spoken"),
    ],
)
def test_a_pool_that_cannot_be_followed_says_why(spec, why):
    with pytest.raises(ValueError, match=why):
        members_of(msgspec.convert(pool(8000, **spec), Pool))


def test_ports_that_no_container_declares_are_told():
    assert port_mismatch(read(pod("a", "10.0.0.1", declares=(8001,))), (8000,)) == (
        "no container of the pool's pods declares port 8000 (they declare 8001)"
    )


@pytest.mark.parametrize("declares", [(8000,), ()])
def test_ports_that_are_declared_or_not_told_of_are_right(declares):
    assert port_mismatch(read(pod("a", "10.0.0.1", declares=declares)), (8000,)) is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, None),
        (
            {"endpointPickerRef": {"name": "epp", "port": {"number": 9002}, "failureMode": "FailOpen"}},
            "gateways ask Service epp:9002 and spread requests themselves while it does not answer (FailOpen)",
        ),
        (
            {"endpointPickerRef": {"name": "epp", "port": {"number": 9002}}},
            "gateways ask Service epp:9002 and refuse requests while it does not answer (FailClose)",
        ),
        (
            {"extensionRef": {"name": "epp", "portNumber": 9002, "failureMode": "FailOpen"}},
            "gateways ask Service epp:9002 and spread requests themselves while it does not answer (FailOpen)",
        ),
        (
            {"endpointPickerRef": {"name": "epp", "failureMode": None}},
            "gateways ask Service epp and refuse requests while it does not answer (FailClose)",
        ),
        ({"endpointPickerRef": {"kind": "Service"}}, None),
        ({"endpointPickerRef": ["what"]}, None),
    ],
)
def test_a_pools_picker_and_its_failure_mode_are_told_and_hinder_nothing(spec, words):
    read_pool = msgspec.convert(pool(8000, **spec), Pool)

    assert picker_of(read_pool) == words
    assert members_of(read_pool) == Members("app=vllm", (8000,))
