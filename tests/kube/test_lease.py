"""Leader election: one leads, others wait; what is given back or not renewed is taken."""

import asyncio
import contextlib
import datetime as dt

import pytest

from epp.discovery.kubernetes.access import Access, AccessError
from epp.discovery.kubernetes.api import ApiClient, Resource
from epp.discovery.kubernetes.lease import LeaderElection, LeasePolicy, lease_name
from tests.discovery.kit import Pauses
from tests.kube.api_server import RunningApiServer
from tests.kube.kit import until

PATH = "/apis/coordination.k8s.io/v1/leases"
RESOURCE = Resource("coordination.k8s.io", "v1", "leases", "ns")
NAME = "epp-ns-llm.llm-d.ai"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class Clock:
    """Seconds that the test lets pass."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


class Replica:
    """One that takes part; `turn` lets it have one more."""

    def __init__(self, server, name, clock, *, token=lambda: ""):
        self.clock, self.pauses, self.changes = clock, Pauses(), []
        access = Access(server.url, "ns", token, None)
        self.election = LeaderElection(
            lambda: ApiClient(access, stall_s=5),
            RESOURCE,
            NAME,
            name,
            clock=clock,
            today=lambda: NOON + dt.timedelta(seconds=clock.now),
            pause=self.pauses,
            on_change=self.changes.append,
            policy=LeasePolicy(answer_s=5.0),
        )

    async def turn(self, after_s=0.0):
        self.clock.now += after_s
        await self.pauses.next()

    @property
    def leads(self):
        return self.election.leading


@contextlib.asynccontextmanager
async def replicas(server, *names):
    """Replicas that have had their first turn, one after the other, and share a clock."""
    clock, made, tasks = Clock(), [], []
    try:
        for name in names:
            made.append(Replica(server, name, clock))
            tasks.append(asyncio.create_task(made[-1].election.run()))
            await made[-1].pauses.reached()
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def spec(server):
    return server.objects[PATH, "ns", NAME]["spec"]


async def test_the_first_one_makes_the_lease_and_leads():
    async with RunningApiServer() as server, replicas(server, "a", "b") as (a, b):
        assert (a.leads, b.leads) == (True, False)
        assert (a.changes, b.changes) == (["leading"], [])
        assert b.election.holder == "a"
        assert spec(server) == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 4,
            "acquireTime": "2026-01-01T12:01:40.000000Z",
            "renewTime": "2026-01-01T12:01:40.000000Z",
            "leaseTransitions": 0,
        }


async def test_it_leads_as_long_as_it_renews():
    async with RunningApiServer() as server, replicas(server, "a", "b") as (a, b):
        for _ in range(10):
            await a.turn(after_s=1.0)
            await b.turn()
        assert (a.leads, b.leads) == (True, False)
        assert spec(server)["renewTime"] == "2026-01-01T12:01:50.000000Z"
        assert spec(server)["acquireTime"] == "2026-01-01T12:01:40.000000Z"


async def test_one_that_is_silent_for_the_duration_is_succeeded_and_never_overlaps():
    async with RunningApiServer() as server, replicas(server, "a", "b") as (a, b):
        for _ in range(3):
            await b.turn(after_s=1.0)
            assert (a.leads, b.leads) == (True, False)
        await b.turn(after_s=1.0)
        assert (a.leads, b.leads) == (False, True)
        assert spec(server)["leaseTransitions"] == 1
        await a.turn()
        assert (a.leads, b.leads) == (False, True)
        assert a.changes == ["leading", "not leading; b is"]


async def test_one_that_gives_it_back_is_succeeded_at_the_next_turn():
    async with RunningApiServer() as server, replicas(server, "a", "b") as (a, b):
        a.election.give_back()
        await a.election.given_back()
        assert not a.leads
        assert spec(server)["holderIdentity"] == ""
        await b.turn(after_s=0.1)
        assert b.leads


async def test_one_that_did_not_lead_gives_nothing_back():
    async with RunningApiServer() as server, replicas(server, "a", "b") as (a, b):
        b.election.give_back()
        await b.election.given_back()
        assert a.leads
        assert spec(server)["holderIdentity"] == "a"


async def test_of_two_that_write_at_once_one_leads():
    async with RunningApiServer() as server, replicas(server, "a", "b", "c") as (a, b, c):
        a.clock.now += 1.0
        await asyncio.gather(b.turn(), c.turn())
        a.clock.now += 4.0
        await asyncio.gather(b.turn(), c.turn())
        assert [b.leads, c.leads].count(True) == 1
        assert not a.leads
        assert (b.election.problem, c.election.problem) == (None, None)


async def test_a_leader_that_cannot_renew_leads_no_longer_than_its_lease_holds():
    async with RunningApiServer() as server, replicas(server, "a") as (a,):
        server.forbid("get", "leases")
        await a.turn(after_s=3.0)
        assert a.leads
        assert "cannot get leases.coordination.k8s.io in namespace ns: 403" in a.election.problem
        await a.turn(after_s=1.0)
        assert not a.leads
        server.allow("get", "leases")
        await a.turn(after_s=1.0)
        assert a.leads
        assert a.election.problem is None


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_a_missing_permission_is_named(verb):
    async with RunningApiServer() as server:
        server.forbid(verb, "leases")
        if verb == "update":
            server.put(PATH, {"metadata": {"name": NAME}, "spec": None})
        async with replicas(server, "a") as (a,):
            assert not a.leads
            assert f"cannot {verb} leases.coordination.k8s.io in namespace ns: 403" in a.election.problem


async def test_an_api_server_that_hangs_or_is_not_found_is_a_problem():
    async with RunningApiServer() as server, replicas(server, "a") as (a,):
        a.election._policy = LeasePolicy(answer_s=0.05)
        server.check = lambda *_: None
        held = asyncio.Event()

        async def hang(*_):
            await held.wait()

        server._answer = hang
        await a.turn()
        assert "no answer in 0.05 s" in a.election.problem

        def nowhere():
            raise AccessError("no kubeconfig")

        a.election._new_client = nowhere
        await a.turn()
        assert a.election.problem == "no kubeconfig"
        held.set()
        await until(lambda: True)


def recorded(server):
    """Message of each Event, oldest first."""
    found = [obj for key, obj in server.objects.items() if key[0] == "/api/v1/events"]
    return [obj["message"] for obj in sorted(found, key=lambda obj: int(obj["metadata"]["resourceVersion"]))]


async def test_each_change_of_the_leader_is_an_event_of_the_lease():
    async with RunningApiServer() as server, replicas(server, "a", "b") as (a, b):
        await until(lambda: recorded(server))
        a.clock.now += 1.0
        a.election.give_back()
        await a.election.given_back()
        await b.turn(after_s=1.0)
        await until(lambda: len(recorded(server)) == 3)
        assert recorded(server) == ["a became leader", "a stopped leading", "b became leader"]
        [event] = [o for k, o in server.objects.items() if o.get("message") == "b became leader"]
        assert event["involvedObject"] == {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": NAME, "namespace": "ns",
        }  # fmt: skip
        assert (event["reason"], event["type"], event["firstTimestamp"]) == (
            "LeaderElection", "Normal", "2026-01-01T12:01:42Z",
        )  # fmt: skip
        assert event["metadata"]["name"].startswith(f"{NAME}.")


async def test_an_event_that_may_not_be_recorded_is_told_once_and_the_lease_is_held():
    async with RunningApiServer() as server:
        server.forbid("create", "events")
        async with replicas(server, "a") as (a,):
            await until(lambda: len(a.changes) == 2)
            assert a.changes[1].startswith("no Event was recorded: cannot create events in namespace ns: 403")
            a.clock.now += 10.0
            server.forbid("get", "leases")
            await a.turn()
            server.allow("get", "leases")
            await a.turn()
            assert a.leads
            assert a.changes[2:] == ["not leading; a is", "leading"]
            assert sum(kind == "/api/v1/events" for _, kind, _ in server.asked) == 1


async def test_an_event_that_fails_for_the_moment_is_tried_with_the_next_change():
    async with RunningApiServer() as server:
        server.failing.add("events")
        async with replicas(server, "a") as (a,):
            await until(lambda: len(a.changes) == 2)
            server.failing.clear()
            a.clock.now += 1.0
            a.election.give_back()
            await a.election.given_back()
            assert recorded(server) == ["a stopped leading"]


async def test_where_the_api_server_is_not_known_no_event_is_recorded():
    async with RunningApiServer() as server, replicas(server, "a") as (a,):
        await until(lambda: recorded(server))

        def nowhere():
            raise AccessError("no kubeconfig")

        a.election._new_client = nowhere
        await a.turn(after_s=10.0)
        assert recorded(server) == ["a became leader"]
        assert a.changes == ["leading", "not leading; a is"]


def test_the_lease_has_the_go_pickers_name():
    assert lease_name("ns", "llm") == NAME
    assert len(lease_name("n" * 63, "p" * 253)) <= 253
