"""deploy/: every folder renders by itself, is valid, and says what epp understands."""

import argparse
import copy
import json
import re

import jsonschema
import pytest
import yaml

from epp.cli.go_flags import PICKER_PORTS, translate
from epp.config import add_settings_flags, load_config, load_settings
from tests.kube.manifests import (
    DEPLOY,
    FOLDERS,
    OURS,
    ROOT,
    VLLM,
    check,
    container,
    granted,
    kustomized,
    of_kind,
    only,
)

INSTALLS = [folder for folder in OURS if not folder.endswith("base") and folder != "base/epp"]
GATEWAYS = [folder for folder in INSTALLS if folder.startswith("gateway/")]


def settings_of(words):
    """What epp takes from the arguments of a container."""
    bare = words[0] != "serve"
    given = translate(words if bare else words[1:], bare=bare)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_settings_flags(parser)
    defaults = PICKER_PORTS if given.picker else {}
    assert given.notices == ()
    return load_settings(parser.parse_args(given.words), {}, lambda _: "", defaults)[0]


def test_there_is_a_folder_for_each_part_and_each_provider():
    assert set(FOLDERS) >= {
        "proxy",
        "standalone",
        "gateway/gke",
        "gateway/istio",
        "gateway/kgateway",
        "gateway/agentgateway",
        "vllm-offloading",
        "vllm-offloading-seed-era",
        "vllm-lmcache",
        "vllm-lmcache-seed-era",
        "monitoring",
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_it_renders_by_itself_and_is_valid(folder):
    objects = kustomized(folder)

    assert objects
    for obj in objects:
        check(obj)
    names = [(obj["kind"], obj["metadata"]["name"]) for obj in objects]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("folder", INSTALLS)
def test_epp_understands_its_arguments(folder):
    settings = settings_of(container(kustomized(folder))["args"])

    assert settings.admin_port == 9090
    assert settings.drain_timeout_s == 30.0
    assert settings.config == "/config/picker.yaml"


@pytest.mark.parametrize("folder", INSTALLS)
def test_ports_of_container_service_and_policy_agree_with_the_arguments(folder):
    objects = kustomized(folder)
    settings = settings_of(container(objects)["args"])
    ports = {port["name"]: port["containerPort"] for port in container(objects)["ports"]}
    wanted = {settings.admin_port, settings.grpc.port, settings.grpc.health_port} - {0}
    wanted |= set() if settings.grpc.port else {settings.port}

    assert set(ports.values()) == wanted
    assert {port["targetPort"] for port in only(objects, "Service")["spec"]["ports"]} <= set(ports)
    policy = only(objects, "NetworkPolicy")["spec"]
    assert wanted <= {port["port"] for port in policy["ingress"][0]["ports"]}


def test_a_gateway_asks_the_picker_that_is_installed():
    for folder in GATEWAYS:
        objects = kustomized(folder)
        pool, service = only(objects, "InferencePool"), only(objects, "Service")
        reference = pool["spec"]["endpointPickerRef"]
        assert reference["name"] == service["metadata"]["name"] == "llm-d-infpool-epp"
        assert reference["port"]["number"] in [port["port"] for port in service["spec"]["ports"]]
        assert f"--pool-name={pool['metadata']['name']}" in container(objects)["args"]
        [route] = of_kind(objects, "HTTPRoute")
        assert route["metadata"]["name"] == "llm-d-route"
        [backend] = route["spec"]["rules"][0]["backendRefs"]
        assert (backend["kind"], backend["name"]) == ("InferencePool", "llm-d-infpool")
        assert route["spec"]["parentRefs"][0]["name"] == only(objects, "Gateway")["metadata"]["name"]


@pytest.mark.parametrize(
    ("folder", "name", "kinds"),
    [
        (
            "gateway/gke",
            "gke-l7-regional-external-managed",
            {"HealthCheckPolicy", "GCPBackendPolicy", "PodMonitoring"},
        ),
        ("gateway/istio", "istio", {"DestinationRule"}),
        ("gateway/kgateway", "kgateway", set()),
        ("gateway/agentgateway", "agentgateway", set()),
    ],
)
def test_each_provider_has_its_class_and_what_it_needs(folder, name, kinds):
    objects = kustomized(folder)
    special = {"HealthCheckPolicy", "GCPBackendPolicy", "PodMonitoring", "DestinationRule"}

    assert only(objects, "Gateway")["spec"]["gatewayClassName"] == name
    assert {obj["kind"] for obj in objects} & special == kinds
    assert ("--secure-serving=false" in container(objects)["args"]) is (folder == "gateway/agentgateway")


def test_istio_speaks_tls_to_the_picker():
    rule = only(kustomized("gateway/istio"), "DestinationRule")["spec"]

    assert rule == {
        "host": "llm-d-infpool-epp",
        "trafficPolicy": {"tls": {"mode": "SIMPLE", "insecureSkipVerify": True}},
    }


@pytest.mark.parametrize("folder", INSTALLS)
def test_the_role_is_bound_and_allows_reading_only(folder):
    objects = kustomized(folder)
    binding, account = only(objects, "RoleBinding"), only(objects, "ServiceAccount")

    assert {verb for verbs in granted(objects).values() for verb in verbs} == {"get", "list", "watch"}
    assert binding["roleRef"]["name"] == only(objects, "Role")["metadata"]["name"]
    assert [s["name"] for s in binding["subjects"]] == [account["metadata"]["name"]]
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]


@pytest.mark.parametrize("folder", INSTALLS)
def test_the_pod_is_confined_probed_and_given_time_to_drain(folder):
    objects = kustomized(folder)
    pod, inside = only(objects, "Deployment")["spec"]["template"]["spec"], container(objects)

    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert inside["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert inside["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert inside["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert inside["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
    assert pod["terminationGracePeriodSeconds"] > 5 + settings_of(inside["args"]).drain_timeout_s
    assert pod["topologySpreadConstraints"]


@pytest.mark.parametrize("folder", INSTALLS)
def test_the_index_outlives_a_restart_of_the_container(folder):
    objects = kustomized(folder)
    volumes = {v["name"]: v for v in only(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container(objects)["volumeMounts"]}

    assert settings_of(container(objects)["args"]).state.dir == "/state"
    assert not mounts["/state"].get("readOnly", False)
    assert "emptyDir" in volumes[mounts["/state"]["name"]]


@pytest.mark.parametrize("folder", FOLDERS)
def test_only_what_has_replicas_has_a_disruption_budget(folder):
    objects = kustomized(folder)
    epp = [obj for obj in of_kind(objects, "Deployment") if "ms-" not in obj["metadata"]["name"]]

    assert bool(of_kind(objects, "PodDisruptionBudget")) is any(obj["spec"]["replicas"] > 1 for obj in epp)


def test_a_rolling_update_starts_the_new_pod_first():
    strategy = only(kustomized("proxy"), "Deployment")["spec"]["strategy"]["rollingUpdate"]

    assert strategy == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("folder", [*INSTALLS, "standalone"])
def test_the_configuration_is_one_that_epp_loads(folder):
    data = only(kustomized(folder), "ConfigMap")["data"]

    config = load_config(data["picker.yaml"], "picker.yaml")

    assert [(view.tier, view.capacity_blocks) for view in config.views if view.tier == "cpu"] == [
        ("cpu", 25600)
    ]


@pytest.mark.parametrize("folder", VLLM)
def test_model_servers_match_the_pool_and_tell_cached_tokens(folder):
    deployment = only(kustomized(folder), "Deployment")
    template = deployment["spec"]["template"]
    [server] = template["spec"]["containers"]
    selector = only(kustomized("gateway/base"), "InferencePool")["spec"]["selector"]["matchLabels"]
    proxied = settings_of(container(kustomized("proxy"))["args"]).kubernetes

    assert selector.items() <= template["metadata"]["labels"].items()
    assert proxied.selector == ",".join(f"{key}={value}" for key, value in selector.items())
    assert "--enable-prompt-tokens-details" in server["args"]
    assert [port["containerPort"] for port in server["ports"]] == [8000]
    [token] = [item for item in server["env"] if item["name"] == "HF_TOKEN"]
    assert token["valueFrom"]["secretKeyRef"] == {"name": "llm-d-hf-token", "key": "HF_TOKEN"}


@pytest.mark.parametrize(
    ("folder", "flag"),
    [
        ("vllm-offloading", "--kv-offloading-size=100"),
        ("vllm-offloading-seed-era", '"num_cpu_blocks":25600'),
        ("vllm-lmcache", "LMCacheConnectorV1"),
        ("vllm-lmcache-seed-era", "LMCacheConnectorV1"),
    ],
)
def test_each_variant_offloads_as_its_vllm_wants_it(folder, flag):
    [server] = only(kustomized(folder), "Deployment")["spec"]["template"]["spec"]["containers"]

    assert any(flag in argument for argument in server["args"])
    connector = [a for a in server["args"] if a.startswith("--kv-transfer-config=")]
    for argument in connector:
        assert json.loads(argument.partition("=")[2])["kv_role"] == "kv_both"


def test_dashboard_and_alerts_use_metrics_that_exist():
    dashboard = (DEPLOY / "monitoring" / "epp-dashboard.json").read_text()
    rules = (DEPLOY / "monitoring" / "prometheusrule.yaml").read_text()
    known = set(re.findall(r"`((?:epp|llm_d_epp)_[a-z_]+)`", (ROOT / "docs" / "metrics.md").read_text()))
    used = set(re.findall(r"\b((?:epp|llm_d_epp)_[a-z_]+)\b", dashboard + rules))

    used = {name.removesuffix("_bucket") for name in used}

    assert len(used) > 20
    assert used <= known
    assert len(json.loads(dashboard)["panels"]) == 12


def test_every_alert_has_a_runbook():
    rules = only(kustomized("monitoring"), "PrometheusRule")["spec"]["groups"][0]["rules"]
    headings = re.findall(r"^### (\w+)$", (ROOT / "docs" / "kubernetes.md").read_text(), re.MULTILINE)

    assert [rule["alert"] for rule in rules] == headings
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"docs/kubernetes.md#{rule['alert'].lower()}"


def test_monitors_find_the_ports_that_are_there():
    objects = kustomized("monitoring")
    [endpoint] = only(objects, "ServiceMonitor")["spec"]["endpoints"]
    [pods] = only(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]
    for folder in ("proxy", "gateway/base"):
        service = only(kustomized(folder), "Service")
        assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
        selector = only(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
        assert selector.items() <= service["metadata"]["labels"].items()
    [server] = only(kustomized("vllm-offloading"), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert pods["port"] in [port["name"] for port in server["ports"]]
    assert yaml.safe_load((DEPLOY / "monitoring" / "kustomization.yaml").read_text())


def test_a_replica_that_waits_for_a_lease_may_read_and_write_it_and_holds_up_no_rolling_update():
    objects = kustomized("proxy-leader-election")
    spec = only(objects, "Deployment")["spec"]

    assert granted(objects)["coordination.k8s.io", "leases"] == {"get", "create", "update"}
    assert granted(objects)["", "events"] == {"create"}
    assert [len(role["rules"]) for role in of_kind(objects, "Role")] == [4, 2]
    assert settings_of(container(objects)["args"]).kubernetes.leader_election
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": "100%"}
    sleep = int(container(objects)["lifecycle"]["preStop"]["exec"]["command"][1])
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > sleep + 30
    assert ("coordination.k8s.io", "leases") not in granted(kustomized("proxy-replicated"))


def test_what_asks_the_api_server_about_tokens_may_do_so_and_nothing_else_of_the_cluster():
    objects = kustomized("proxy-metrics-auth")
    [binding] = of_kind(objects, "ClusterRoleBinding")
    account = only(objects, "ServiceAccount")["metadata"]

    assert settings_of(container(objects)["args"]).kubernetes.metrics_auth
    assert granted(objects, "ClusterRole") == {
        ("authentication.k8s.io", "tokenreviews"): {"create"},
        ("authorization.k8s.io", "subjectaccessreviews"): {"create"},
        (None, "/metrics"): {"get"},
    }
    assert binding["roleRef"]["name"].endswith("-metrics-auth")
    assert [(s["name"], s["namespace"]) for s in binding["subjects"]] == [
        (account["name"], account["namespace"])
    ]


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != "proxy-metrics-auth"])
def test_nothing_else_may_do_anything_in_the_whole_cluster(folder):
    objects = kustomized(folder)

    assert not of_kind(objects, "ClusterRole")
    assert not of_kind(objects, "ClusterRoleBinding")
    for deployment in of_kind(objects, "Deployment"):
        for inside in deployment["spec"]["template"]["spec"]["containers"]:
            assert not [word for word in inside.get("args", ()) if "metrics-endpoint-auth" in word]


@pytest.mark.parametrize("folder", INSTALLS)
def test_the_network_policy_lets_through_what_epp_needs_and_covers_the_pod(folder):
    objects = kustomized(folder)
    policy = only(objects, "NetworkPolicy")["spec"]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    out = {port["port"] for rule in policy["egress"] for port in rule["ports"]}

    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert out == {53, 5353, 443, 6443, 8000}


@pytest.mark.parametrize(
    ("folder", "kind", "path", "value", "told"),
    [
        ("gateway/istio", "Gateway", ("spec", "gatewayClass"), "istio", "gatewayClass"),
        ("gateway/istio", "HTTPRoute", ("spec", "rules", 0, "backendRefs", 0, "port"), "http", "'http'"),
        ("gateway/istio", "DestinationRule", ("spec", "trafficPolicy", "tls", "mode"), "TLS", "'TLS'"),
        ("gateway/istio", "InferencePool", ("spec", "endpointPicker"), {}, "endpointPicker"),
        ("gateway/gke", "PodMonitoring", ("spec", "endpoints", 0, "intervall"), "10s", "intervall"),
        ("monitoring", "ServiceMonitor", ("spec", "endpoints", 0, "interval"), "ten", "'ten'"),
        ("monitoring", "PodMonitor", ("spec", "podMetricsEndpoint"), [], "podMetricsEndpoint"),
        ("monitoring", "PrometheusRule", ("spec", "groups", 0, "rules", 0, "for"), 5, "5 is not"),
    ],
)
def test_a_field_that_a_kind_does_not_have_is_found(folder, kind, path, value, told):
    obj = copy.deepcopy(only(kustomized(folder), kind))
    node = obj
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value

    with pytest.raises(jsonschema.ValidationError, match=told):
        check(obj)


def test_every_pod_is_spared_the_variables_of_services():
    bare = list(yaml.safe_load_all((DEPLOY / "standalone" / "epp-envoy.yaml").read_text()))
    rendered = [obj for folder in FOLDERS for obj in kustomized(folder)]

    for obj in of_kind([*rendered, *bare], "Deployment"):
        assert obj["spec"]["template"]["spec"]["enableServiceLinks"] is False
