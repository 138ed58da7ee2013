"""Manifests as kustomize and Helm render them, and how they are checked without a cluster."""

import functools
import os
import pathlib
import shutil
import subprocess

import jsonschema
import kubernetes_validate
import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "epp"
FOLDERS = sorted(str(path.parent.relative_to(DEPLOY)) for path in DEPLOY.rglob("kustomization.yaml"))
OURS = [
    folder
    for folder in FOLDERS
    if folder.split("/")[0] in ("base", "proxy", "proxy-replicated", "proxy-metrics-auth", "gateway")
]
VLLM = [folder for folder in FOLDERS if folder.startswith("vllm-")]

# Kinds of others: validated where their schema is here, and at least known.
CUSTOM = {
    "InferencePool",
    "Gateway",
    "HTTPRoute",
    "DestinationRule",
    "HealthCheckPolicy",
    "GCPBackendPolicy",
    "PodMonitoring",
    "ServiceMonitor",
    "PodMonitor",
    "PrometheusRule",
}


@functools.cache
def kustomized(folder):
    """The objects of a folder, as `kubectl kustomize` renders them."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run(
        [kubectl, "kustomize", str(DEPLOY / folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


@functools.cache
def chart(name="llm-d-infpool", namespace="llm-d-pfc-cpu", **values):
    """The objects of the chart; `values` as the text of a YAML document."""
    helm = pytest.importorskip("helm_python", reason="the Helm library has no build for this machine")
    given = yaml.safe_load(values.get("text", "")) or {}
    rendered = helm.Chart.load(str(CHART)).render(given, name=name, namespace=namespace)
    texts = [text for path, text in sorted(rendered.items()) if path.endswith(".yaml")]
    return tuple(obj for text in texts for obj in yaml.safe_load_all(text) if obj)


@functools.cache
def pool_schema(version):
    crd = yaml.safe_load((ROOT / "tests" / "data" / "inferencepools.crd.yaml").read_text())
    [found] = [v for v in crd["spec"]["versions"] if v["name"] == version]
    return found["schema"]["openAPIV3Schema"]


def check(obj):
    """Every field is known and right, as far as there is a schema."""
    kind, version = obj["kind"], obj["apiVersion"]
    if version == "inference.networking.k8s.io/v1":
        jsonschema.validate(obj, pool_schema("v1"))
    elif kind in CUSTOM:
        assert obj["metadata"]["name"]
        assert obj["spec"]
    else:
        kubernetes_validate.validate(obj, kubernetes_validate.latest_version(), strict=True)


def of_kind(objects, kind):
    return [obj for obj in objects if obj["kind"] == kind]


def only(objects, kind):
    [found] = of_kind(objects, kind)
    return found


def container(objects):
    [found] = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def granted(objects, kind="Role"):
    """(group, resource) → verbs, of every Role; the group of a URL that is no resource is None."""
    found = {}
    for role in of_kind(objects, kind):
        for rule in role["rules"]:
            for group in rule.get("apiGroups", [None]):
                for resource in rule.get("resources") or rule["nonResourceURLs"]:
                    found.setdefault((group, resource), set()).update(rule["verbs"])
    return found
