"""The Helm chart: the seed guide's three commands, names of the community's chart, and values that are wrong."""

import pytest
import yaml

from epp.config import load_config
from tests.kube.manifests import CHART, chart, check, container, granted, of_kind, only
from tests.kube.test_manifests import settings_of

# What the guide's values file says, apart from the picker's own configuration.
GUIDE = """
inferenceExtension:
  replicas: 1
  image: {hub: registry.example, name: epp, tag: v1, pullPolicy: Always}
  extProcPort: 9002
  pluginsConfigFile: tiered.yaml
  pluginsCustomConfig:
    tiered.yaml: |
      apiVersion: inference.networking.x-k8s.io/v1alpha1
      kind: EndpointPickerConfig
      plugins:
      - type: queue-scorer
      - type: prefix-cache-scorer
      schedulingProfiles:
      - name: default
        plugins: [{pluginRef: queue-scorer, weight: 2}, {pluginRef: prefix-cache-scorer, weight: 2}]
inferencePool:
  targetPorts: [{number: 8000}]
  modelServerType: vllm
  modelServers: {matchLabels: {llm-d.ai/inferenceServing: "true"}}
"""


def values(**more):
    """The guide's values with others beside them, as `--set` gives them: dotted with blanks."""
    tree = yaml.safe_load(GUIDE)
    for path, value in more.items():
        *branch, leaf = path.split("__")
        node = tree
        for key in branch:
            node = node.setdefault(key, {})
        node[leaf] = value
    return yaml.safe_dump(tree)


COMMANDS = {
    "gke": {"provider__name": "gke", "inferenceExtension__monitoring__gke__enable": True},
    "istio": {"provider__name": "istio", "inferenceExtension__monitoring__prometheus__enable": True},
    "kgateway": {"provider__name": "kgateway"},
    "agentgateway": {"provider__name": "agentgateway"},
    "none": {"inferenceExtension__replicas": 3, "inferenceExtension__env": [{"name": "A", "value": "b"}]},
    "alpha": {"inferencePool__apiVersion": "inference.networking.x-k8s.io/v1alpha2"},
}


def rendered(command, name="llm-d-infpool"):
    return chart(name, text=values(**COMMANDS[command]))


@pytest.mark.parametrize("command", COMMANDS)
def test_it_renders_and_is_valid(command):
    objects = rendered(command)

    for obj in objects:
        check(obj)
    assert {obj["metadata"].get("namespace") for obj in objects} == {"llm-d-pfc-cpu"}


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("gke", {"HealthCheckPolicy", "GCPBackendPolicy", "PodMonitoring"}),
        ("istio", {"DestinationRule", "ServiceMonitor"}),
        ("kgateway", set()),
        ("none", {"PodDisruptionBudget"}),
    ],
)
def test_each_command_brings_what_its_provider_needs(command, kinds):
    usual = {
        "ConfigMap",
        "Deployment",
        "InferencePool",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }

    assert {obj["kind"] for obj in rendered(command)} - usual == kinds


def test_the_pool_and_the_picker_have_the_names_that_the_guide_looks_for():
    objects = rendered("gke")
    pool = only(objects, "InferencePool")

    assert pool["metadata"]["name"] == "llm-d-infpool"
    assert only(objects, "Deployment")["metadata"]["name"] == "llm-d-infpool-epp"
    assert pool["spec"] == {
        "targetPorts": [{"number": 8000}],
        "selector": {"matchLabels": {"llm-d.ai/inferenceServing": "true"}},
        "endpointPickerRef": {
            "name": "llm-d-infpool-epp",
            "kind": "Service",
            "port": {"number": 9002},
            "failureMode": "FailOpen",
        },
    }


def test_a_pool_of_the_alpha_version_is_written_as_it_was():
    objects = rendered("alpha")

    assert only(objects, "InferencePool")["spec"] == {
        "targetPortNumber": 8000,
        "selector": {"llm-d.ai/inferenceServing": "true"},
        "extensionRef": {"name": "llm-d-infpool-epp", "portNumber": 9002, "failureMode": "FailOpen"},
    }
    assert "--pool-group=inference.networking.x-k8s.io" in container(objects)["args"]


@pytest.mark.parametrize("command", COMMANDS)
def test_epp_understands_its_arguments_and_configuration(command):
    objects = rendered(command)
    settings = settings_of(container(objects)["args"])

    assert (settings.pool_name, settings.kubernetes.namespace) == ("llm-d-infpool", "llm-d-pfc-cpu")
    assert settings.config == "/config/tiered.yaml"
    assert settings.grpc.secure is (command != "agentgateway")
    assert settings.state.dir == "/state"
    assert "/state" in [mount["mountPath"] for mount in container(objects)["volumeMounts"]]
    load_config(only(objects, "ConfigMap")["data"]["tiered.yaml"], "tiered.yaml")
    grace = only(objects, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > settings.drain_timeout_s


def test_flags_are_appended_in_the_go_pickers_names_too():
    objects = chart(text=values(inferenceExtension__flags={"v": 5, "drain-timeout": "20s"}))

    settings = settings_of(container(objects)["args"])

    assert (settings.log.level, settings.drain_timeout_s) == ("debug", 20.0)


def test_without_a_configuration_of_its_own_epps_is_used():
    objects = chart(text=values(inferenceExtension__pluginsCustomConfig={}))

    assert of_kind(objects, "ConfigMap") == []
    assert settings_of(container(objects)["args"]).config is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"inferencePool__modelServers": {"matchLabels": {}}}, "matchLabels"),
        ({"inferencePool__targetPorts": []}, "targetPorts"),
        ({"provider__name": "nginx"}, "provider"),
        ({"inferenceExtension__replicas": 0}, "replicas"),
        ({"inferenceExtension__terminationGracePeriodSeconds": 10}, "terminationGracePeriodSeconds"),
        ({"inferenceExtension__pluginsConfigFile": "other.yaml"}, "other.yaml, which is no key"),
    ],
)
def test_values_that_are_wrong_are_refused_by_name(wrong, told):
    helm = pytest.importorskip("helm_python")
    with pytest.raises(helm.HelmError, match=told):
        chart(text=values(**wrong))


def test_lint_finds_nothing():
    helm = pytest.importorskip("helm_python")
    found = helm.lint(str(CHART), yaml.safe_load(GUIDE), strict=True)

    messages = [m for m in found.get("messages", []) if "icon" not in str(m)]
    assert messages == []


def test_the_role_allows_reading_only():
    assert {verb for verbs in granted(rendered("gke")).values() for verb in verbs} == {"get", "list", "watch"}


def test_leader_election_brings_its_own_role_and_a_strategy_that_ends():
    flags = {"ha-enable-leader-election": True}
    objects = chart(text=values(inferenceExtension__replicas=2, inferenceExtension__flags=flags))
    spec = only(objects, "Deployment")["spec"]

    for obj in objects:
        check(obj)
    assert granted(objects)["coordination.k8s.io", "leases"] == {"get", "create", "update"}
    assert [len(role["rules"]) for role in of_kind(objects, "Role")] == [3, 1]
    assert settings_of(container(objects)["args"]).kubernetes.leader_election
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": "100%"}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 60
    assert "lifecycle" not in container(rendered("gke"))
