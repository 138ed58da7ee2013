"""As in a pod: TLS with the cluster's authority, and the service account's token, which is replaced meanwhile."""

import asyncio
import ssl

import pytest
import trustme

from epp.discovery.kubernetes.access import find_access
from epp.discovery.kubernetes.api import ApiClient
from epp.discovery.kubernetes.source import KubernetesSource, Surroundings
from tests.kube.api_server import RunningApiServer
from tests.kube.kit import POOL, Told, Waits, pod, pool, watching


@pytest.fixture(scope="module")
def ca():
    return trustme.CA()


@pytest.fixture
async def server(ca):
    """Over TLS, for whoever shows the token `one`."""
    made = RunningApiServer()
    made.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(made.tls)
    made.token = "one"
    made.put("inferencepools", pool(8000))
    made.put("pods", pod("a", "10.0.0.1"))
    async with made:
        yield made


def account(folder, authority, token="one"):
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    (folder / "namespace").write_text("ns")
    (folder / "token").write_text(token)
    return folder


async def run(server, folder, told, new_pause=None):
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
    source = KubernetesSource(
        lambda: ApiClient(find_access(None, environ, folder), stall_s=30.0),
        "ns",
        POOL,
        Surroundings(new_pause or Waits().new_pause, random=lambda: 1.0),
    )
    return asyncio.create_task(source.run(told))


class Held:
    """Pauses without an end: whoever pauses has ended an attempt and begins no other."""

    def __init__(self):
        self.made = self.held = 0

    def new_pause(self):
        self.made += 1

        async def pause(_seconds):
            self.held += 1
            await asyncio.Event().wait()

        return pause

    async def all_held(self):
        """All but the first, which is for credentials that cannot be read."""
        async with asyncio.timeout(10):
            while self.held < self.made - 1:  # noqa: ASYNC110  states without an event of their own
                await asyncio.sleep(0)


async def ended(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_service_account_is_enough_and_its_token_may_be_replaced(server, ca, tmp_path):
    told = Told()
    task = await run(server, account(tmp_path, ca), told)
    await told.until_addresses("10.0.0.1:8000")
    await watching(server)

    server.token = "two"
    (tmp_path / "token").write_text("two")
    server.drop_watches()
    server.put("pods", pod("b", "10.0.0.2"))
    await told.until_addresses("10.0.0.1:8000", "10.0.0.2:8000")
    assert told.problem is None
    await ended(task)


async def test_an_api_server_of_another_authority_is_not_believed(server, tmp_path):
    told, held = Told(), Held()
    task = await run(server, account(tmp_path, trustme.CA()), told, held.new_pause)
    await told.until(lambda t: t.problem is not None)
    await held.all_held()  # a handshake that is cancelled leaves its socket to the garbage collector

    assert "CERTIFICATE_VERIFY_FAILED" in told.problem
    assert told.specs is None
    assert server.asked == []
    await ended(task)
