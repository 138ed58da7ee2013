"""Who may read /metrics where the API server is asked: nobody whom it does not vouch for."""

import asyncio
import contextlib

import httpx
import pytest

from epp.app.metrics_access import MetricsAccess
from epp.clock import ManualClock
from epp.config import KubernetesSettings, Settings
from epp.config.settings import AccessLogSettings
from epp.discovery.kubernetes import reviews
from epp.discovery.kubernetes.access import Access, AccessError
from epp.discovery.kubernetes.api import ApiClient
from epp.discovery.kubernetes.reviews import Reviewer, Ruling, Verdict
from epp.endpoints.spec import parse_endpoints
from epp.errors import ForbiddenError, InternalError, UnauthorizedError
from tests.e2e.kit import running_router
from tests.kube.api_server import RunningApiServer
from tests.kube.test_kube_processes import kubeconfig

PROMETHEUS = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
}
READ = ("get", "/metrics")


class Stage:
    """An API server that knows Prometheus, and a reviewer that asks it."""

    def __init__(self, server):
        self.server, self.clock = server, ManualClock()
        self.access_error = None
        self.reviewer = Reviewer(self.new_client, self.clock)
        server.users["good"] = PROMETHEUS
        server.users["other"] = {"username": "someone"}
        server.granted.add((PROMETHEUS["username"], *READ))

    def new_client(self):
        if self.access_error is not None:
            raise self.access_error
        return ApiClient(Access(self.server.url, "ns", lambda: "", None), stall_s=5)

    async def rule(self, token="good"):
        return await self.reviewer.rule(token, *READ)

    @property
    def asked(self):
        return [kind.rpartition("/")[2] for _, kind, _ in self.server.asked]


@contextlib.asynccontextmanager
async def running_stage():
    async with RunningApiServer() as server:
        stage = Stage(server)
        try:
            yield stage
        finally:
            await stage.reviewer.close()


async def test_a_token_whose_owner_may_is_admitted_after_both_reviews():
    async with running_stage() as stage:
        assert await stage.rule() == Ruling(Verdict.ALLOWED)
        assert stage.asked == ["tokenreviews", "subjectaccessreviews"]


async def test_a_group_may_have_the_permission():
    async with running_stage() as stage:
        stage.server.granted = {("system:authenticated", *READ)}
        assert (await stage.rule()).verdict is Verdict.ALLOWED


async def test_a_token_that_nobody_knows_is_asked_about_once_and_no_access_is_reviewed():
    async with running_stage() as stage:
        assert await stage.rule("bad") == Ruling(Verdict.UNKNOWN_TOKEN)
        assert stage.asked == ["tokenreviews"]


@pytest.mark.parametrize("token", ["", "x" * 20_000])
async def test_what_is_no_token_is_not_asked_about(token):
    async with running_stage() as stage:
        assert await stage.rule(token) == Ruling(Verdict.UNKNOWN_TOKEN)
        assert stage.asked == []


async def test_an_owner_who_may_not_is_named():
    async with running_stage() as stage:
        assert await stage.rule("other") == Ruling(Verdict.FORBIDDEN, "someone")


async def test_what_was_allowed_holds_for_a_minute_and_a_refusal_for_ten_seconds():
    async with running_stage() as stage:
        await stage.rule()
        await stage.rule("other")
        stage.server.granted.clear()
        stage.clock.now += 9.9
        assert (await stage.rule()).verdict is Verdict.ALLOWED
        assert (await stage.rule("other")).verdict is Verdict.FORBIDDEN
        assert len(stage.asked) == 4

        stage.server.granted.add(("someone", *READ))
        stage.clock.now += 0.2
        assert (await stage.rule("other")).verdict is Verdict.ALLOWED
        stage.clock.now += 50.0
        assert (await stage.rule()).verdict is Verdict.FORBIDDEN


async def test_the_memory_has_a_bound_and_keeps_no_token(monkeypatch):
    monkeypatch.setattr(reviews, "_MOST", 2)
    async with running_stage() as stage:
        for token in ("good", "bad", "worse"):
            await stage.rule(token)
        assert len(stage.reviewer._known) == 2
        assert not any(b"bad" in key[0] for key in stage.reviewer._known)
        await stage.rule()
        assert stage.asked.count("tokenreviews") == 4


async def test_requests_with_the_same_token_at_the_same_time_make_one_review(monkeypatch):
    monkeypatch.setattr(reviews, "_AT_ONCE", 1)
    async with running_stage() as stage:
        stage.reviewer = Reviewer(stage.new_client, stage.clock)
        rulings = await asyncio.gather(*(stage.rule() for _ in range(5)))
        assert {ruling.verdict for ruling in rulings} == {Verdict.ALLOWED}
        assert stage.asked == ["tokenreviews", "subjectaccessreviews"]


async def test_a_flood_of_tokens_does_not_become_a_flood_of_reviews(monkeypatch):
    monkeypatch.setattr(reviews, "_WAITING", 2)
    async with running_stage() as stage:
        rulings = await asyncio.gather(*(stage.rule(f"guess {n}") for n in range(10)))
        assert len(stage.asked) == 2
        assert rulings.count(Ruling(Verdict.FAILED, "too many reviews wait for the API server")) == 8


async def test_an_api_server_that_forbids_is_named_with_verb_and_resource_and_asked_again():
    async with running_stage() as stage:
        stage.server.forbid("create", "tokenreviews")
        ruling = await stage.rule()
        assert ruling.verdict is Verdict.FAILED
        assert ruling.detail.startswith(
            "cannot create tokenreviews.authentication.k8s.io of the cluster: 403 Forbidden"
        )
        stage.server.allow("create", "tokenreviews")
        assert (await stage.rule()).verdict is Verdict.ALLOWED


async def test_nobody_is_admitted_while_the_api_server_is_away():
    async with running_stage() as stage:
        await stage.server.stop()
        assert (await stage.rule()).verdict is Verdict.FAILED
        await stage.server.start()
        assert (await stage.rule()).verdict is Verdict.ALLOWED


async def test_nobody_is_admitted_where_nothing_says_where_the_api_server_is():
    async with running_stage() as stage:
        stage.access_error = AccessError("cannot use kubeconfig /k: No such file or directory")
        assert await stage.rule() == Ruling(Verdict.FAILED, str(stage.access_error))


async def test_an_api_server_that_is_silent_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(reviews, "_ANSWER_S", 0.01)
    async with running_stage() as stage:
        monkeypatch.setattr("tests.kube.api_server.send", silent_send)
        assert await stage.rule() == Ruling(Verdict.FAILED, "the API server did not answer in 0.01 s")


async def silent_send(*_arguments):
    await asyncio.sleep(60)


async def test_an_answer_that_cannot_be_read_admits_nobody():
    async with running_stage() as stage:
        stage.server.review = lambda _kind, _body: ["what"]
        ruling = await stage.rule()
        assert ruling.verdict is Verdict.FAILED
        assert "the answer cannot be read" in ruling.detail


class Rulings:
    """A reviewer whose word is given."""

    def __init__(self, ruling):
        self.ruling, self.asked = ruling, []

    async def rule(self, *asked):
        self.asked.append(asked)
        return self.ruling

    async def close(self):
        self.asked.append("closed")


@pytest.mark.parametrize(
    ("ruling", "error", "told"),
    [
        (Ruling(Verdict.UNKNOWN_TOKEN), UnauthorizedError, "a token of the cluster is needed"),
        (Ruling(Verdict.FORBIDDEN, "someone"), ForbiddenError, "someone may not get /metrics"),
        (Ruling(Verdict.FAILED, "why"), InternalError, "the API server cannot be asked"),
    ],
)
async def test_each_verdict_has_its_answer_and_the_client_learns_no_more(ruling, error, told, caplog):
    access = MetricsAccess(Rulings(ruling), ManualClock())
    with pytest.raises(error, match=told) as raised:
        await access.admit([(b"authorization", b"Bearer t")])
    assert "why" not in raised.value.message
    failed = [m for m in caplog.messages if "nobody gets /metrics" in m]
    assert bool(failed) is (ruling.verdict is Verdict.FAILED)
    assert not failed or failed[0].endswith("cannot be told: why")


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ([(b"authorization", b"Bearer abc")], "abc"),
        ([(b"authorization", b"bearer  abc ")], "abc"),
        ([(b"authorization", b"Basic abc")], ""),
        ([(b"authorization", b"Bearer")], ""),
        ([(b"x-api-key", b"abc")], ""),
        ([(b"authorization", b"Bearer one"), (b"authorization", b"Bearer two")], "one"),
    ],
)
async def test_the_token_is_the_first_bearer_token(headers, token):
    reviewer = Rulings(Ruling(Verdict.ALLOWED))
    access = MetricsAccess(reviewer, ManualClock())
    await access.admit(headers)
    await access.close()

    assert reviewer.asked == [(token, "get", "/metrics"), "closed"]


async def test_a_running_router_asks_for_metrics_and_for_nothing_else(tmp_path, capsys):
    async with RunningApiServer() as server:
        Stage(server)
        settings = Settings(
            host="127.0.0.1",
            port=0,
            endpoint=parse_endpoints(["http://127.0.0.1:1"]),
            access_log=AccessLogSettings(file=str(tmp_path / "access.log")),
            kubernetes=KubernetesSettings(kubeconfig=kubeconfig(server, tmp_path), metrics_auth=True),
        )
        async with running_router(settings) as router:

            async def status(path, token=None):
                headers = {"authorization": f"Bearer {token}"} if token else {}
                return (await router.client.get(path, headers=headers)).status_code

            assert await status("/metrics") == httpx.codes.UNAUTHORIZED
            assert await status("/metrics", "bad") == httpx.codes.UNAUTHORIZED
            assert await status("/metrics", "other") == httpx.codes.FORBIDDEN
            assert await status("/metrics", "good") == httpx.codes.OK
            assert await status("/healthz") == httpx.codes.OK
            server.forbid("create", "subjectaccessreviews")
            server.users["new"] = PROMETHEUS
            assert await status("/metrics", "new") == httpx.codes.INTERNAL_SERVER_ERROR
            assert await status("/metrics", "good") == httpx.codes.OK
    assert "cannot create subjectaccessreviews.authorization.k8s.io of the cluster" in capsys.readouterr().err
