"""Manifests as kustomize and Helm render them, and how they are checked without a cluster."""

import functools
import json
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

# Kinds of Google's gateways, whose schemas are published nowhere: only that they are known is checked.
UNPUBLISHED = {"HealthCheckPolicy", "GCPBackendPolicy"}


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
def custom_schemas():
    """(apiVersion, kind) → schema, in which a field that it does not name is wrong."""
    crd = yaml.safe_load((ROOT / "tests" / "data" / "inferencepools.crd.yaml").read_text())
    [pool] = [v for v in crd["spec"]["versions"] if v["name"] == "v1"]
    found = {("inference.networking.k8s.io/v1", "InferencePool"): strict(pool["schema"]["openAPIV3Schema"])}
    for path in (ROOT / "tests" / "data" / "crds").glob("*.json"):
        crd = json.loads(path.read_text())
        schema = crd["openAPIV3Schema"]
        schema["properties"] = {"apiVersion": {}, "kind": {}, "metadata": {}, **schema["properties"]}
        found[crd["apiVersion"], crd["kind"]] = strict(schema)
    return found


def strict(schema):
    """A copy of an API server's schema that says of unknown fields what `kubectl --validate=strict` does."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: strict(value) for key, value in schema.items() if key != "properties"}
    if isinstance(copy.get("pattern"), str):
        copy["pattern"] = copy["pattern"].replace("^(?i)", "(?i)^")  # Go's spelling
    if "properties" in schema:
        copy["properties"] = {name: strict(value) for name, value in schema["properties"].items()}
        if schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
            copy.setdefault("additionalProperties", False)
    return copy


def check(obj):
    """Every field is known and right."""
    kind, version = obj["kind"], obj["apiVersion"]
    if (version, kind) in custom_schemas():
        jsonschema.validate(obj, custom_schemas()[version, kind])
    elif version == "inference.networking.x-k8s.io/v1alpha2" or kind in UNPUBLISHED:
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
