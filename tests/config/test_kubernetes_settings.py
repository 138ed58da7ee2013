"""What is read from Kubernetes: ports, and settings that exclude each other."""

import pytest

from epp.config.kubernetes_settings import ports_of
from tests.config.test_settings_load import load, problems


@pytest.mark.parametrize(("text", "ports"), [("8000", (8000,)), ("8000, 8001", (8000, 8001))])
def test_ports_with_commas_between(text, ports):
    assert ports_of(text) == ports


@pytest.mark.parametrize("text", ["0", "65536", "a", "80,", "-1", "80,80", "1,2,3,4,5,6,7,8,9"])
def test_what_is_no_list_of_ports_is_told(text):
    found = problems(environ={"EPP_KUBERNETES_PORTS": text})

    assert len(found) == 1
    assert "kubernetes.ports: must be" in found[0]
    assert "write 8000 or 8000,8001" in found[0]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            "--kubernetes-pool p --kubernetes-selector a=b",
            "kubernetes.selector: is given beside kubernetes.pool",
        ),
        (
            "--metrics-endpoint-auth --api-keys-metrics=true",
            "kubernetes.metricsAuth: is given beside apiKeys.metrics",
        ),
        ("--kubernetes-pool=", "must not be empty"),
        ("--kubernetes-selector=", "must not be empty"),
        ("--kubernetes-namespace=", "must not be empty"),
        ("--kubernetes-pool-group=apps", "inference.networking.k8s.io"),
        ("--kubernetes-stall-timeout=0s", "kubernetes-stall-timeout"),
    ],
)
def test_what_cannot_be_followed_is_told(flags, told):
    [problem] = problems(flags=flags)

    assert told in problem


def test_a_pool_and_a_selector_can_be_named():
    assert load("--kubernetes-pool p --kubernetes-namespace n")[0].kubernetes.pool == "p"
    assert load("--kubernetes-selector app=vllm")[0].kubernetes.selector == "app=vllm"
