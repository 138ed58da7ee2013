"""Whatever happens to pods, to the pool and to the connections: after one more list the endpoints are right."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kube.kit import cluster, following, pod, pool, until

NAMES = st.sampled_from("abc")
PODS = st.builds(
    lambda name, last, app, ready, deleted, uid: pod(
        name,
        last and f"10.0.0.{last}",
        labels={"app": app},
        ready=ready,
        deleted=deleted,
        uid=f"uid-{name}-{uid}",
    ),
    NAMES,
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from(["vllm", "vllm", "other"]),
    st.sampled_from(["True", "True", "False"]),
    st.booleans(),
    st.integers(0, 1),
)
PORTS = st.lists(st.sampled_from([8000, 8001]), min_size=1, max_size=2, unique=True)
POOLS = st.builds(
    lambda ports, app: pool(*ports, labels={"app": app}), PORTS, st.sampled_from(["vllm", "other"])
)
STEPS = st.one_of(
    st.tuples(st.just("put pod"), PODS),
    st.tuples(st.just("delete pod"), NAMES),
    st.tuples(st.just("put pool"), POOLS),
    st.tuples(st.just("delete pool"), st.none()),
    st.tuples(st.sampled_from(["drop", "compact", "bookmark", "stall", "restart", "breathe"]), st.none()),
    st.tuples(st.sampled_from(["forbid", "fail"]), st.sampled_from(["pods", "inferencepools"])),
    st.tuples(st.just("cut"), st.integers(1, 600)),
)


async def take(server, step, what):
    if step == "put pod":
        server.put("pods", what)
    elif step == "delete pod":
        server.delete("pods", what)
    elif step == "put pool":
        server.put("/apis/inference.networking.k8s.io/v1/inferencepools", what)
    elif step == "delete pool":
        server.delete("/apis/inference.networking.k8s.io/v1/inferencepools", "llm")
    elif step == "restart":
        await server.stop()
        await server.start()
    elif step == "breathe":
        await asyncio.sleep(0.003)
    elif step == "stall":
        server.stalled = True
    elif step == "cut":
        server.cut_at = what
    elif step == "forbid":
        server.forbid("watch", what)
    elif step == "fail":
        server.failing.add(what)
    else:
        {"drop": server.drop_watches, "compact": server.compact, "bookmark": server.bookmark}[step]()
    await asyncio.sleep(0)


def heal(server):
    """No more breaks; every watch has to begin again, with a list."""
    server.stalled, server.cut_at = False, None
    server.failing.clear()
    server.forbidden.clear()
    server.drop_watches()


def truth(server):
    """The addresses, straight from the objects."""
    objects = {(kind.rpartition("/")[2], name): obj for (kind, _, name), obj in server.objects.items()}
    found = objects.get(("inferencepools", "llm"))
    if found is None:
        return set()
    app = found["spec"]["selector"]["matchLabels"]["app"]
    return {
        (f"{obj['status']['podIP']}:{port['number']}", obj["metadata"]["uid"])
        for (plural, _), obj in objects.items()
        if plural == "pods"
        and obj["metadata"]["labels"]["app"] == app
        and "deletionTimestamp" not in obj["metadata"]
        and obj["status"]["podIP"]
        and obj["status"]["conditions"][0]["status"] == "True"
        for port in found["spec"]["targetPorts"]
    }


def pairs(told):
    return {(spec.address, spec.uid) for spec in told.specs}


async def play(steps):
    async with cluster(pod("a", "10.0.0.1")) as server, following(server) as told:
        for step, what in steps:
            await take(server, step, what)
        heal(server)
        await until(lambda: told.specs is not None and pairs(told) == truth(server))
        # Nothing that is still under way spoils it.
        await asyncio.sleep(0.005)
        assert pairs(told) == truth(server)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
@given(st.lists(STEPS, max_size=20))
def test_the_endpoints_are_the_truth_after_one_resync(steps):
    asyncio.run(play(steps))
