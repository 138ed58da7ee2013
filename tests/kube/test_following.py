"""What a source tells of a pool while the API server serves, breaks and refuses."""

import asyncio

import pytest

from epp.discovery.kubernetes.access import AccessError
from epp.discovery.kubernetes.members import Members
from epp.discovery.kubernetes.source import KubernetesSource, PoolName, Surroundings
from tests.discovery.kit import addresses
from tests.kube.api_server import RunningApiServer
from tests.kube.kit import Told, Waits, cluster, following, objective, pod, pool, rewrite, until, watching

A, B, C = "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"


async def test_the_ready_pods_of_the_pool_are_endpoints():
    other = pod("x", "10.0.0.9", labels={"app": "other"})
    async with (
        cluster(pod("a", "10.0.0.1"), pod("b", "10.0.0.2", ready="False"), other) as server,
        following(server) as told,
    ):
        await told.until_addresses(A)
        assert told.problem is None


async def test_changes_are_followed():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        await told.until_addresses(A)
        await watching(server)
        server.put("pods", pod("b", "10.0.0.2"))
        await told.until_addresses(A, B)
        server.put("pods", pod("a", "10.0.0.1", deleted=True))
        await told.until_addresses(B)
        server.put("pods", pod("b", None))
        await told.until_addresses()
        server.put("pods", pod("b", "10.0.0.3"))
        await told.until_addresses(C)


async def test_a_pod_whose_labels_stop_matching_is_gone():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        await told.until_addresses(A)
        await watching(server)
        server.put("pods", pod("a", "10.0.0.1", labels={"app": "quarantine"}))
        await told.until_addresses()


async def test_ports_and_selector_of_the_pool_are_followed():
    other = pod("b", "10.0.0.2", labels={"app": "next"})
    async with cluster(pod("a", "10.0.0.1"), other) as server, following(server) as told:
        await told.until_addresses(A)
        server.put("inferencepools", pool(8000, 8001))
        await told.until_addresses(A, "10.0.0.1:8001")
        server.put("inferencepools", pool(8000, labels={"app": "next"}))
        await told.until_addresses(B)
        assert told.heard.count(("publish", [])) == 0  # the old ones stay until the new ones are known


async def test_a_pool_that_is_deleted_has_no_endpoints_and_is_named():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        await told.until_addresses(A)
        await watching(server, "inferencepools")
        server.delete("inferencepools", "llm")
        await told.until(lambda t: t.problem is not None)
        assert told.specs == ()
        assert told.problem == "there is no InferencePool ns/llm"
        server.put("inferencepools", pool(8000))
        await told.until_addresses(A)
        assert told.problem is None


async def test_a_pool_that_is_wrong_leaves_the_endpoints():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        await told.until_addresses(A)
        server.put("inferencepools", pool(8000, targetPorts=None))
        await told.until(lambda t: t.problem is not None)
        assert told.problem == "InferencePool ns/llm: spec.targetPorts has 0 ports; it needs 1 to 8"
        assert addresses(told.specs) == [A]


async def test_a_problem_that_stays_is_not_told_with_every_change_of_a_pod():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        await told.until_addresses(A)
        await watching(server)
        server.put("inferencepools", pool(8000, targetPorts=None))
        await told.until(lambda t: t.problem is not None)
        for number in range(2, 6):
            server.put("pods", pod("b", f"10.0.0.{number}"))
        server.put("inferencepools", pool(8000))
        await told.until_addresses(A, "10.0.0.5:8000")
        assert [kind for kind, _ in told.heard].count("fail") == 1
        assert told.problem is None


async def test_a_pool_of_the_alpha_group_is_read_there():
    spec = {"selector": {"app": "vllm"}, "targetPortNumber": 8000}
    path = "/apis/inference.networking.x-k8s.io/v1alpha2/inferencepools"
    async with RunningApiServer() as server:
        server.put(path, {"metadata": {"name": "llm"}, "spec": spec})
        server.put("pods", pod("a", "10.0.0.1"))
        async with following(server, PoolName("llm", "inference.networking.x-k8s.io")) as told:
            await told.until_addresses(A)


async def test_a_label_selector_needs_no_pool():
    async with RunningApiServer() as server:
        for kind in list(server.kinds - {"/api/v1/pods"}):
            server.remove_kind(kind)
        server.put("pods", pod("a", "10.0.0.1"))
        async with following(server, Members("app=vllm", (8000, 8001))) as told:
            await told.until_addresses(A, "10.0.0.1:8001")
            assert told.problem is None
        assert {kind for _, kind, _ in server.asked} == {"/api/v1/pods"}


async def test_lists_are_read_page_by_page():
    pods = [pod(f"p{n:03}", f"10.0.{n // 200}.{n % 200 + 1}") for n in range(250)]
    async with cluster(*pods) as server, following(server) as told:
        await told.until(lambda t: t.specs is not None)
        assert len(told.specs) == 250
        assert [query.get("limit") for verb, kind, query in server.asked if kind == "/api/v1/pods"][:3] == [
            "100"
        ] * 3


async def test_bookmarks_change_nothing():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        await told.until_addresses(A)
        await watching(server)
        heard = len(told.heard)
        server.bookmark()
        server.put("pods", pod("b", "10.0.0.2"))
        await told.until_addresses(A, B)
        assert len(told.heard) == heard + 1
        assert told.remarks == []


async def test_a_version_that_is_too_old_leads_to_a_list():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        await told.until_addresses(A)
        await watching(server)
        server.stalled = True
        server.delete("pods", "a")
        server.put("pods", pod("b", "10.0.0.2"))
        server.compact()
        server.stalled = False
        server.bookmark()  # wakes the watches up, which find that their version is gone
        await told.until_addresses(B)
        assert told.problem is None


async def test_a_watch_on_which_nothing_comes_is_given_up():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server, stall_s=0.2) as told:
        await told.until_addresses(A)
        await watching(server)
        server.stalled = True
        server.delete("pods", "a")
        await told.until_addresses()
        assert told.problem is None


async def test_every_so_often_everything_is_listed():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server, resync_s=1.0) as told:
        await told.until_addresses(A)
        await watching(server)
        server.objects.pop(("/api/v1/pods", "ns", "a"))  # no event tells of it
        await told.until_addresses()
        timeouts = {query["timeoutSeconds"] for verb, _, query in server.asked if verb == "watch"}
        assert timeouts == {"1"}


async def test_a_quiet_watch_that_lasted_is_begun_again_without_a_longer_pause():
    waits = Waits()
    quick = {"first_pause_s": 0.01, "longest_pause_s": 0.05}
    async with cluster() as server, following(server, waits=waits, stall_s=0.1, **quick) as told:
        await told.until_addresses()
        await until(lambda: len([s for s in waits.asked if s < 100]) >= 6)
    assert {s for s in waits.asked if s < 100} == {0.01}


@pytest.mark.parametrize("cut_at", [1, 7, 150, 700])
async def test_an_event_that_is_cut_anywhere_is_not_lost(cut_at):
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        await told.until_addresses(A)
        await watching(server)
        server.cut_at = cut_at
        server.put("pods", pod("b", "10.0.0.2"))
        await told.until_addresses(A, B)


async def test_an_api_server_that_restarts_takes_nothing_away():
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        await told.until_addresses(A)
        await server.stop()
        await told.until(lambda t: t.problem is not None)
        assert addresses(told.specs) == [A]
        assert "no answer from http://127.0.0.1" in told.problem
        server.delete("pods", "a")
        await server.start()
        await told.until_addresses()
        await told.until(lambda t: t.problem is None)


@pytest.mark.parametrize(
    ("verb", "plural", "named"),
    [
        ("list", "pods", "cannot list pods in namespace ns: 403 Forbidden"),
        (
            "list",
            "inferencepools",
            "cannot list inferencepools.inference.networking.k8s.io in namespace ns: 403 Forbidden",
        ),
        ("watch", "pods", "cannot watch pods in namespace ns: 403 Forbidden"),
    ],
)
async def test_a_missing_permission_is_named_and_comes_without_a_restart(verb, plural, named):
    async with cluster(pod("a", "10.0.0.1")) as server:
        server.forbid(verb, plural)
        async with following(server) as told:
            await told.until(lambda t: t.problem is not None)
            assert named in told.problem
            server.allow(verb, plural)
            await told.until_addresses(A)
            await told.until(lambda t: t.problem is None)


async def test_without_leave_to_watch_lists_still_count():
    async with cluster(pod("a", "10.0.0.1")) as server:
        server.forbid("watch", "pods")
        async with following(server) as told:
            await told.until_addresses(A)
            server.delete("pods", "a")
            await told.until_addresses()
            assert "cannot watch pods" in told.problem


async def test_a_pool_kind_that_is_not_installed_is_named():
    async with RunningApiServer() as server:
        server.remove_kind("/apis/inference.networking.k8s.io/v1/inferencepools")
        async with following(server) as told:
            await told.until(lambda t: t.problem is not None)
            assert "cannot list inferencepools.inference.networking.k8s.io" in told.problem
            assert "404" in told.problem
            assert told.specs is None


async def test_failures_are_asked_again_more_and_more_rarely():
    waits = Waits()
    async with cluster() as server:
        server.failing = {"inferencepools"}
        async with following(server, waits=waits) as told:
            await told.until(lambda t: [kind for kind, _ in t.heard].count("fail") >= 9)
    assert [s for s in waits.asked if s < 100][:8] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert "500 InternalError: etcdserver: request timed out" in told.problem


async def test_a_token_is_read_anew_for_each_request():
    token = "old"
    async with cluster(pod("a", "10.0.0.1")) as server:
        server.token = "old"
        async with following(server, token=lambda: token) as told:
            await told.until_addresses(A)
            server.token = "new"
            server.drop_watches()
            await told.until(lambda t: t.problem is not None)
            assert "401 Unauthorized" in told.problem
            assert addresses(told.specs) == [A]
            token = "new"
            await told.until(lambda t: t.problem is None)


async def test_a_token_that_cannot_be_read_is_a_problem():
    def token():
        raise FileNotFoundError(2, "No such file or directory")

    async with cluster() as server, following(server, token=token) as told:
        await told.until(lambda t: t.problem is not None)
        assert told.problem.endswith("in namespace ns: cannot read the token: No such file or directory")


@pytest.mark.parametrize("token", ["sentinel\nX-Evil: 1", "sentinel é", "['sentinel']  "])
async def test_a_token_that_is_none_is_a_problem_and_is_not_shown(token):
    async with cluster() as server, following(server, token=lambda: token) as told:
        await told.until(lambda t: t.problem is not None)
        assert told.problem.endswith("in namespace ns: the token is not one line of printable ASCII")


async def test_a_token_file_that_is_no_text_is_a_problem():
    async with cluster() as server, following(server, token=b"\xff".decode) as told:
        await told.until(lambda t: t.problem is not None)
        assert told.problem.endswith("in namespace ns: cannot read the token: it is not UTF-8")


async def test_objectives_of_the_pool_have_priorities():
    async with cluster() as server:
        path = "/apis/llm-d.ai/v1alpha2/inferenceobjectives"
        server.put(path, objective("batch", -1))
        server.put(path, objective("default", None))
        server.put(path, objective("other", 9, pool_name="else"))
        async with following(server) as told:
            await told.until(lambda t: t.priorities == {"batch": -1, "default": 0})
            await watching(server, "inferenceobjectives", 2)
            server.put(path, objective("batch", -5))
            await told.until(lambda t: t.priorities == {"batch": -5, "default": 0})
            server.delete(path, "batch")
            await told.until(lambda t: t.priorities == {"default": 0})


@pytest.mark.parametrize("how", ["absent", "forbidden"])
async def test_an_optional_kind_that_is_not_there_is_said_once(how):
    waits = Waits()
    path = "/apis/llm-d.ai/v1alpha2/inferenceobjectives"
    async with cluster(pod("a", "10.0.0.1")) as server:
        if how == "absent":
            server.remove_kind(path)
        else:
            server.forbid("list", "inferenceobjectives")
        async with following(server, waits=waits) as told:
            await told.until_addresses(A)
            await told.until(lambda t: any("llm-d.ai" in remark for remark in t.remarks))
            assert told.problem is None
            waits.again()
            server.put("inferenceobjectives", objective("batch", -1))
            await told.until(lambda t: len(waits.asked) >= 2)
            server.kinds.add(path)
            server.allow("list", "inferenceobjectives")
            server.put(path, objective("late", 3))
            waits.again()
            await told.until(lambda t: "late" in t.priorities)
            said = [remark for remark in told.remarks if "cannot list" in remark and "llm-d.ai" in remark]
            assert len(said) == 1
            assert said[0].startswith("cannot list inferenceobjectives.llm-d.ai in namespace ns: 40")


async def test_rewrites_of_the_pool_are_rules_of_the_oldest_first():
    older, younger = (
        rewrite("z", "m", created="2026-01-01T00:00:00Z"),
        rewrite("a", "n", created="2026-01-02T00:00:00Z"),
    )
    async with cluster() as server:
        server.put("inferencemodelrewrites", younger)
        server.put("inferencemodelrewrites", older)
        server.put("inferencemodelrewrites", rewrite("other", "o", pool_name="else"))
        async with following(server) as told:
            await told.until(lambda t: t.rewrites is not None)
            assert [(rule.source, rule.models) for rule in told.rewrites] == [("z", ("m",)), ("a", ("n",))]
            await watching(server, "inferencemodelrewrites")
            server.put("inferencemodelrewrites", rewrite("z", "p", created="2026-01-01T00:00:00Z"))
            await told.until(lambda t: t.rewrites[0].models == ("p",))
            server.delete("inferencemodelrewrites", "z")
            await told.until(lambda t: [rule.source for rule in t.rewrites] == ["a"])
            server.drop_watches()
            await watching(server, "inferencemodelrewrites")
            assert [rule.source for rule in told.rewrites] == ["a"]
            assert told.remarks == []


async def test_where_nothing_is_rewritten_each_rewrite_of_the_pool_is_said_not_to_be_applied():
    async with cluster() as server:
        server.put("inferencemodelrewrites", rewrite("canary", "m"))
        async with following(server, rewrites=False) as told:
            await told.until(lambda t: t.remarks)
            assert told.remarks == [
                "InferenceModelRewrite canary is not applied: bodies are not changed here"
            ]


async def test_pods_that_cannot_be_used_are_said_once_and_the_others_count():
    broken = pod("broken", "10.0.0.7")
    broken["status"]["containerStatuses"] = "none"
    async with (
        cluster(broken, pod("odd", "not-an-address"), pod("z", "10.0.0.1")) as server,
        following(server) as told,
    ):
        await told.until_addresses(A)
        await watching(server)
        server.drop_watches()
        await watching(server)
        server.put("pods", pod("y", "10.0.0.2"))
        await told.until(lambda t: addresses(t.specs) == [B, A])
        assert len(told.remarks) == 2
        assert "an object of pods in namespace ns cannot be read" in told.remarks[0]
        assert told.remarks[1].startswith("pod odd is not used: ")


async def test_a_source_without_credentials_says_so_and_goes_on():
    tries = []

    def new_client():
        tries.append(1)
        raise AccessError("cannot read the service account in /x: gone; mount it")

    waits, told = Waits(), Told()
    around = Surroundings(waits.new_pause, random=lambda: 0.0)
    task = asyncio.create_task(KubernetesSource(new_client, "ns", PoolName("llm"), around).run(told))
    await told.until(lambda t: len(tries) >= 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert told.problem == "cannot read the service account in /x: gone; mount it"
    assert waits.asked[:2] == [30.0, 30.0]


async def test_whom_gateways_ask_is_noted_once_and_again_when_it_changes():
    reference = {"name": "epp", "port": {"number": 9002}, "failureMode": "FailOpen"}
    path = "/apis/inference.networking.k8s.io/v1/inferencepools"
    async with cluster(pod("a", "10.0.0.1")) as server:
        server.put(path, pool(8000, endpointPickerRef=reference))
        async with following(server) as told:
            await told.until_addresses("10.0.0.1:8000")
            await watching(server, "inferencepools")
            server.put(path, pool(8001, endpointPickerRef=reference))
            await told.until_addresses("10.0.0.1:8001")
            server.put(path, pool(8002, endpointPickerRef={**reference, "failureMode": "FailClose"}))
            await told.until_addresses("10.0.0.1:8002")
            assert [note.rpartition(" ")[2] for note in told.notes] == ["(FailOpen)", "(FailClose)"]
            assert told.notes[0].startswith("InferencePool ns/llm: gateways ask Service epp:9002")
