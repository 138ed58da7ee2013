"""Tokens from a kubeconfig's command: run when needed, not more often, and named when it fails."""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from epp.app.kubernetes import _clients
from epp.config import KubernetesSettings
from epp.discovery.kubernetes import exec_credentials
from epp.discovery.kubernetes.access import Access, AccessError, find_access
from epp.discovery.kubernetes.api import ApiClient, ApiError, Query, Resource
from epp.discovery.kubernetes.exec_credentials import ExecToken, exec_command
from tests.kube.api_server import RunningApiServer
from tests.kube.kit import pod

PODS = Query(Resource("", "v1", "pods", "ns"))
V1 = "client.authentication.k8s.io/v1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

# Counts its runs in a file and prints the token that stands in another.
PLUGIN = """
import json, os, pathlib, sys
here = pathlib.Path(sys.argv[1])
with (here / "runs").open("a") as runs:
    runs.write(os.environ["KUBERNETES_EXEC_INFO"] + "\\n")
print((here / "answer").read_text())
"""


class Plugin:
    """A command in a folder, and what it answers."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "plugin.py").write_text(PLUGIN)
        (folder / "runs").write_text("")
        self.answer("one")

    def answer(self, token, lasts_s=None):
        status = {"token": token}
        if lasts_s is not None:
            status["expirationTimestamp"] = (NOON + timedelta(seconds=lasts_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
        (self.folder / "answer").write_text(json.dumps({"kind": "ExecCredential", "status": status}))

    def spec(self, **more):
        arguments = [str(self.folder / "plugin.py"), str(self.folder)]
        return {"apiVersion": V1, "command": sys.executable, "args": arguments, **more}

    def token(self, now=lambda: NOON, **more):
        return ExecToken(exec_command(self.spec(**more), self.folder, {}), now)

    @property
    def runs(self):
        return (self.folder / "runs").read_text().splitlines()


@pytest.fixture
def plugin(tmp_path):
    return Plugin(tmp_path)


async def test_the_command_is_run_once_and_told_that_nobody_is_at_a_terminal(plugin):
    token = plugin.token()
    assert token.token() == ""
    await asyncio.gather(*(token.renew() for _ in range(3)))

    assert token.token() == "one"
    [told] = plugin.runs
    assert json.loads(told) == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_it_is_run_again_a_minute_before_the_token_ends(plugin):
    now = [NOON]
    plugin.answer("one", lasts_s=600)
    token = plugin.token(lambda: now[0])
    await token.renew()
    plugin.answer("two", lasts_s=1200)
    now[0] += timedelta(seconds=539)
    await token.renew()
    assert token.token() == "one"
    now[0] += timedelta(seconds=1)
    await token.renew()
    assert token.token() == "two"


async def test_a_token_that_says_nothing_of_its_end_is_used_for_five_minutes(plugin):
    now = [NOON]
    token = plugin.token(lambda: now[0])
    await token.renew()
    now[0] += timedelta(seconds=299)
    await token.renew()
    assert len(plugin.runs) == 1
    now[0] += timedelta(seconds=1)
    await token.renew()
    assert len(plugin.runs) == 2


async def test_a_token_that_is_not_taken_is_replaced(plugin):
    async with RunningApiServer() as server:
        server.put("pods", pod("a", "10.0.0.1"))
        server.token = "two"
        token = plugin.token()
        client = ApiClient(Access(server.url, "ns", token.token, None, token), stall_s=5)
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await client.list_all(PODS)
        plugin.answer("two")
        assert len((await client.list_all(PODS)).items) == 1
        token.reject("one")  # of a request that was under way meanwhile
        await client.list_all(PODS)
        await client.close()

    assert len(plugin.runs) == 2


async def test_a_watch_that_is_refused_asks_for_another_token_too(plugin):
    async with RunningApiServer() as server:
        server.token = "two"
        token = plugin.token()
        client = ApiClient(Access(server.url, "ns", token.token, None, token), stall_s=5)
        with pytest.raises(ApiError, match="cannot watch pods in namespace ns: 401"):
            await anext(client.watch(PODS, "1", 10.0))
        await client.close()
    await token.renew()

    assert len(plugin.runs) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no json", "printed no ExecCredential that can be read"),
        ('{"status": {"token": "t", "expirationTimestamp": "soon"}}', "printed no ExecCredential"),
        ('{"status": {"clientCertificateData": "x"}}', "client certificates from exec are not supported"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_told(plugin, text, why):
    (plugin.folder / "answer").write_text(text)
    with pytest.raises(AccessError, match=why):
        await plugin.token().renew()


async def test_a_command_that_fails_is_told_with_its_own_words(plugin):
    (plugin.folder / "answer").unlink()
    with pytest.raises(AccessError, match=r"ended with status 1: .*FileNotFoundError"):
        await plugin.token().renew()


async def test_a_command_that_is_not_installed_is_told_with_its_hint(plugin):
    token = plugin.token(command="./no-such-plugin", installHint="see https://example.org\n")
    client = ApiClient(Access("http://127.0.0.1:1", "ns", token.token, None, token), stall_s=5)
    with pytest.raises(
        ApiError,
        match=r"cannot list pods in namespace ns: cannot run \S*no-such-plugin: No such file or directory; "
        "see https://example.org$",
    ):
        await client.list_all(PODS)
    await client.close()


async def test_a_command_that_does_not_end_is_ended(plugin, monkeypatch):
    monkeypatch.setattr(exec_credentials, "_ANSWER_S", 0.05)
    token = plugin.token(args=["-c", "import time; time.sleep(60)"])
    with pytest.raises(AccessError, match=r"did not end in 0\.05 s"):
        await token.renew()


def test_the_command_sees_its_own_variables_and_those_of_the_process(plugin):
    spec = plugin.spec(env=[{"name": "REGION", "value": "north"}])
    command = exec_command(spec, plugin.folder, {"PATH": "/bin", "REGION": "south"})

    assert dict(command.environ).items() >= {"PATH": "/bin", "REGION": "north"}.items()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"command": ""}, "exec names no command"),
        ({"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1'; .*v1 and"),
        ({"command": "x", "apiVersion": V1, "interactiveMode": "Always"}, "exec wants a terminal"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_file(tmp_path, spec, why):
    with pytest.raises(AccessError, match=f"config: .*{why}"):
        find_access(written(tmp_path, {"exec": spec}), {})


def written(folder, user, server="http://127.0.0.1:1"):
    path = folder / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}],
                "clusters": [{"name": "k", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return str(path)


async def test_clients_of_one_kubeconfig_share_the_token(plugin):
    async with RunningApiServer() as server:
        server.token = "one"
        path = written(plugin.folder, {"exec": plugin.spec()}, server.url)
        new_client = _clients(KubernetesSettings(kubeconfig=path))
        for _ in range(3):
            client = new_client()
            await client.list_all(PODS)
            await client.close()

    assert len(plugin.runs) == 1
