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
        "NetworkPolicy",
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
        ({"networkPolicy": {"apiServerPorts": []}}, "apiServerPorts"),
        ({"networkPolicy": {"enable": True}}, "networkPolicy"),
        ({"inferenceExtension__flags": [{"name": "v"}]}, "flags"),
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
    assert granted(objects)["", "events"] == {"create"}
    assert [len(role["rules"]) for role in of_kind(objects, "Role")] == [3, 2]
    assert settings_of(container(objects)["args"]).kubernetes.leader_election
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": "100%"}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 60
    assert container(objects)["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "10"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pod_serves_on_while_gateways_hear_of_its_end_and_has_time_to_drain(command):
    objects = rendered(command)
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    drain_s = settings_of(container(objects)["args"]).drain_timeout_s

    assert container(objects)["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
    assert pod["terminationGracePeriodSeconds"] > 5 + drain_s


# The guide's own file, as it was when it named its configuration so.
GUIDES_FILE = """
inferencePool:
  modelServers: {matchLabels: {llm-d.ai/inference-serving: "true"}}
inferenceExtension:
  flags: {kv-cache-usage-percentage-metric: "vllm:kv_cache_usage_perc"}
  monitoring: {gke: {enable: false}, prometheus: {enable: false}}
  pluginsConfigFile: custom-plugins.yaml
  pluginsCustomConfig:
    custom-plugins.yaml: |
      apiVersion: inference.networking.x-k8s.io/v1alpha1
      kind: EndpointPickerConfig
      plugins: [{type: active-request-scorer}]
      schedulingProfiles: [{name: default, plugins: [{pluginRef: active-request-scorer, weight: 2.0}]}]
"""


@pytest.mark.parametrize("command", ["gke", "istio", "kgateway"])
def test_a_values_file_that_gives_only_what_the_guides_gives_is_enough(command):
    tree = yaml.safe_load(GUIDES_FILE)
    provider, monitoring = COMMANDS[command]["provider__name"], tree["inferenceExtension"]["monitoring"]
    monitoring["gke"]["enable"] = command == "gke"
    monitoring["prometheus"]["enable"] = command == "istio"
    objects = chart(text=yaml.safe_dump(tree | {"provider": {"name": provider}}))

    for obj in objects:
        check(obj)
    settings = settings_of(container(objects)["args"])
    assert settings.metrics.kv_usage_name == "vllm:kv_cache_usage_perc"
    assert only(objects, "InferencePool")["spec"]["selector"] == {
        "matchLabels": {"llm-d.ai/inference-serving": "true"}
    }


def test_flags_may_be_a_list_of_names_and_values_as_in_older_values_files():
    flags = [{"name": "v", "value": 5}, {"name": "ha-enable-leader-election", "value": True}]
    objects = chart(text=values(inferenceExtension__replicas=2, inferenceExtension__flags=flags))

    settings = settings_of(container(objects)["args"])
    assert (settings.log.level, settings.kubernetes.leader_election) == ("debug", True)
    assert ("coordination.k8s.io", "leases") in granted(objects)


AUTH = {"prometheus": {"enabled": True, "auth": {"enabled": True}}}


def test_metrics_for_those_alone_who_may_read_them():
    objects = chart(text=values(inferenceExtension__monitoring={**AUTH, "gke": {"enabled": True}}))
    name = "llm-d-pfc-cpu-llm-d-infpool-epp"

    for obj in objects:
        check(obj)
    assert settings_of(container(objects)["args"]).kubernetes.metrics_auth
    assert granted(objects, "ClusterRole") == {
        ("authentication.k8s.io", "tokenreviews"): {"create"},
        ("authorization.k8s.io", "subjectaccessreviews"): {"create"},
        (None, "/metrics"): {"get"},
    }
    bound = {b["roleRef"]["name"]: b["subjects"] for b in of_kind(objects, "ClusterRoleBinding")}
    assert {role: subjects[0]["name"] for role, subjects in bound.items()} == {
        f"{name}-metrics-auth": "llm-d-infpool-epp",
        f"{name}-metrics-reader": "llm-d-infpool-epp-metrics-reader",
    }
    secret = only(objects, "Secret")
    assert secret["metadata"]["annotations"] == {
        "kubernetes.io/service-account.name": "llm-d-infpool-epp-metrics-reader"
    }
    [endpoint] = only(objects, "ServiceMonitor")["spec"]["endpoints"]
    shown = {"name": secret["metadata"]["name"], "key": "token"}
    assert endpoint["authorization"] == {"credentials": shown}
    [endpoint] = only(objects, "PodMonitoring")["spec"]["endpoints"]
    assert endpoint["authorization"] == {"type": "Bearer", "credentials": {"secret": shown}}


@pytest.mark.parametrize("command", COMMANDS)
def test_without_metrics_auth_nothing_of_the_cluster_is_asked_for(command):
    objects = rendered(command)

    assert {obj["kind"] for obj in objects}.isdisjoint({"ClusterRole", "ClusterRoleBinding", "Secret"})
    assert not settings_of(container(objects)["args"]).kubernetes.metrics_auth
    for monitor in (*of_kind(objects, "ServiceMonitor"), *of_kind(objects, "PodMonitoring")):
        assert "authorization" not in monitor["spec"]["endpoints"][0]


def ports_out(policy):
    return {port["port"] for rule in policy["egress"] for port in rule["ports"]}


def test_the_network_policy_covers_the_pod_and_lets_it_reach_what_it_needs():
    ports = [{"number": 8000}, {"number": 8001}]
    objects = chart(text=values(inferencePool__targetPorts=ports))
    policy = only(objects, "NetworkPolicy")["spec"]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]

    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert ports_out(policy) == {53, 5353, 443, 6443, 8000, 8001}
    assert policy["egress"][2]["to"] == [
        {"podSelector": {"matchLabels": {"llm-d.ai/inferenceServing": "true"}}}
    ]
    inside = {port["containerPort"] for port in container(objects)["ports"]}
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == inside


def test_the_network_policy_follows_its_values():
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    more = {"ports": [{"protocol": "TCP", "port": 4317}]}
    given = {
        "metricsFrom": [monitoring],
        "apiServerPorts": [16443],
        "extraEgress": [more],
        "extraIngress": [more],
    }
    objects = chart(text=values(networkPolicy=given))
    policy = only(objects, "NetworkPolicy")["spec"]

    for obj in objects:
        check(obj)
    assert policy["ingress"][1] == {"ports": [{"protocol": "TCP", "port": 9090}], "from": [monitoring]}
    assert policy["ingress"][2] == more
    assert ports_out(policy) == {53, 5353, 16443, 8000, 4317}
    assert "from" not in policy["ingress"][0]


def test_the_network_policy_can_be_left_out_and_knows_the_alpha_versions_port():
    assert not of_kind(chart(text=values(networkPolicy={"enabled": False})), "NetworkPolicy")
    assert ports_out(only(rendered("alpha"), "NetworkPolicy")["spec"]) == {53, 5353, 443, 6443, 8000}


def test_ports_of_ones_own_are_let_in():
    extra = [{"name": "debug", "containerPort": 7000}]
    policy = only(chart(text=values(inferenceExtension__extraContainerPorts=extra)), "NetworkPolicy")["spec"]

    assert 7000 in {port["port"] for port in policy["ingress"][0]["ports"]}
