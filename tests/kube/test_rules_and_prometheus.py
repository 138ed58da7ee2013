"""Alert rules as promtool reads them, and a real Prometheus that scrapes epp.

Both programs are in Debian's package `prometheus`; `make prometheus` unpacks it into .tools without installing it.
Where it has not been done, the first test here does it.
"""

import asyncio
import contextlib
import fcntl
import functools
import shutil
import socket
import subprocess

import httpx
import pytest
import yaml

from tests.e2e.kit import running_process
from tests.kube.api_server import RunningApiServer
from tests.kube.manifests import DEPLOY, ROOT, kustomized, only
from tests.kube.test_kube_processes import kubeconfig

PATIENCE_S = 40.0
TOOLS = ROOT / ".tools"

# What a rule says of a pool in trouble: series, and the alerts that fire after ten minutes.
TROUBLE = {
    "rule_files": ["rules.yaml"],
    "evaluation_interval": "1m",
    "tests": [
        {
            "interval": "1m",
            "input_series": [
                {"series": 'up{job="epp"}', "values": "1x60"},
                {"series": "epp_endpoints", "values": "4x60"},
                {"series": "epp_stale_endpoints", "values": "2x60"},
                {"series": 'epp_endpoint_ready{endpoint="a:1",namespace="n"}', "values": "0x60"},
                {"series": 'epp_endpoint_ready{endpoint="b:1",namespace="n"}', "values": "1x60"},
                {"series": 'epp_discovery_last_look_success{source="s"}', "values": "0x60"},
                {"series": 'epp_requests_total{status="200",reason="complete"}', "values": "0+90x60"},
                {"series": 'epp_requests_total{status="503",reason="rejected"}', "values": "0+10x60"},
                {"series": 'epp_state_saves_total{result="failed",namespace="n"}', "values": "0+1x60"},
                {"series": 'epp_state_saves_total{result="failed",namespace="m"}', "values": "3x60"},
                {"series": 'epp_state_saves_total{result="ok",namespace="m"}', "values": "0+1x60"},
            ],
            "alert_rule_test": [
                {
                    "eval_time": "10m",
                    "alertname": "EppDiscoveryFailing",
                    "exp_alerts": [{"exp_labels": {"severity": "warning", "source": "s"}}],
                },
                {
                    "eval_time": "10m",
                    "alertname": "EppStaleEndpoints",
                    "exp_alerts": [{"exp_labels": {"severity": "warning"}}],
                },
                {
                    "eval_time": "10m",
                    "alertname": "EppHighErrorRatio",
                    "exp_alerts": [{"exp_labels": {"severity": "critical"}}],
                },
                {
                    "eval_time": "20m",
                    "alertname": "EppStateNotSaved",
                    "exp_alerts": [{"exp_labels": {"severity": "warning", "namespace": "n"}}],
                },
                {"eval_time": "10m", "alertname": "EppNoReadyEndpoint", "exp_alerts": []},
                {"eval_time": "10m", "alertname": "EppDown", "exp_alerts": []},
                {"eval_time": "10m", "alertname": "EppPanicMode", "exp_alerts": []},
            ],
        },
        {
            "interval": "1m",
            "input_series": [
                {"series": 'up{job="epp"}', "values": "0x60"},
                {"series": "epp_endpoints", "values": "0x60"},
                {"series": 'epp_endpoint_ready{endpoint="a:1",namespace="n"}', "values": "0x60"},
            ],
            "alert_rule_test": [
                {
                    "eval_time": "5m",
                    "alertname": "EppDown",
                    "exp_alerts": [{"exp_labels": {"severity": "critical"}}],
                },
                {
                    "eval_time": "5m",
                    "alertname": "EppNoReadyEndpoint",
                    "exp_alerts": [
                        {"exp_labels": {"severity": "critical", "namespace": "n"}},
                        {"exp_labels": {"severity": "critical"}},
                    ],
                },
            ],
        },
    ],
}


def found(name):
    return shutil.which(name) or shutil.which(name, path=str(TOOLS / "usr" / "bin"))


@functools.cache
def fetched():
    """Why the package cannot be had, "" when it is there; one process fetches, the others wait for it."""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found("promtool") is not None:
            return ""
        done = subprocess.run(
            ["make", "--no-print-directory", "prometheus"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    return done.stderr.strip() if done.returncode else ""


def program(name):
    """Where a program of the package is."""
    if found(name) is None and (why := fetched()):
        pytest.skip(f"{name} cannot be had: {why}")
    path = found(name)
    assert path is not None
    return path


@functools.cache
def groups():
    rule = yaml.safe_load((DEPLOY / "monitoring" / "prometheusrule.yaml").read_text())
    return {"groups": rule["spec"]["groups"]}


def without_texts():
    """The rules for promtool's tests, which would compare every annotation."""
    rules = [
        {key: value for key, value in rule.items() if key != "annotations"}
        for rule in groups()["groups"][0]["rules"]
    ]
    return {"groups": [{"name": "epp", "rules": rules}]}


def promtool(*arguments, folder):
    done = subprocess.run(
        [program("promtool"), *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_finds_no_fault_in_the_rules(tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(groups()))

    assert f"{len(groups()['groups'][0]['rules'])} rules found" in promtool(
        "check", "rules", "--lint-fatal", "rules.yaml", folder=tmp_path
    )


def test_alerts_fire_when_they_should_and_only_then(tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(without_texts()))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(TROUBLE))

    assert "SUCCESS" in promtool("test", "rules", "test.yaml", folder=tmp_path)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.asynccontextmanager
async def prometheus(folder, target, **job):
    """A Prometheus that scrapes `target` each second; yields its URL. `job` is more of its configuration."""
    port = free_port()
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{"job_name": "epp", "static_configs": [{"targets": [target]}], **job}],
        "rule_files": ["rules.yaml"],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    (folder / "rules.yaml").write_text(yaml.safe_dump(groups()))
    process = await asyncio.create_subprocess_exec(
        program("prometheus"),
        "--config.file=prometheus.yaml",
        "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
        cwd=folder,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def ask(url, expression):
    """The values of an instant query, [] while there are none."""
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            answer = await client.get(f"{url}/api/v1/query", params={"query": expression})
        except httpx.TransportError:
            return []
    if answer.status_code != httpx.codes.OK:
        return []
    return [float(item["value"][1]) for item in answer.json()["data"]["result"]]


async def test_a_real_prometheus_scrapes_epp(tmp_path):
    program("prometheus")
    arguments = (
        "serve",
        "--host=127.0.0.1",
        "--port=0",
        "--endpoint=http://127.0.0.1:1",
        "--log-format=json",
    )
    async with running_process(tmp_path, *arguments) as epp:
        target = (await epp.url()).removeprefix("http://")
        async with prometheus(tmp_path, target) as url, asyncio.timeout(PATIENCE_S):
            while await ask(url, 'up{job="epp"}') != [1.0] or await ask(url, "epp_endpoints") != [1.0]:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            assert await ask(url, "scrape_samples_scraped > bool 50") == [1.0]
            assert await ask(url, 'epp_discovery_last_look_success{source="endpoint"}') == [1.0]


async def test_a_real_prometheus_shows_its_token_where_metrics_are_guarded(tmp_path):
    program("prometheus")
    async with RunningApiServer() as server:
        server.users["t0ken"] = {"username": "prometheus"}
        server.granted.add(("prometheus", "get", "/metrics"))
        arguments = (
            "serve",
            "--host=127.0.0.1",
            "--port=0",
            "--endpoint=http://127.0.0.1:1",
            "--log-format=json",
            "--metrics-endpoint-auth",
            f"--kubernetes-kubeconfig={kubeconfig(server, tmp_path)}",
        )
        async with running_process(tmp_path, *arguments) as epp:
            target = (await epp.url()).removeprefix("http://")
            shown = {"authorization": {"credentials": "t0ken"}}
            async with (
                prometheus(tmp_path, target, **shown) as url,
                httpx.AsyncClient(trust_env=False) as client,
                asyncio.timeout(PATIENCE_S),
            ):
                assert (await client.get(f"http://{target}/metrics")).status_code == httpx.codes.UNAUTHORIZED
                while await ask(url, 'up{job="epp"}') != [1.0]:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)


def test_the_rules_are_those_of_the_manifest():
    assert only(kustomized("monitoring"), "PrometheusRule")["spec"]["groups"] == groups()["groups"]
