"""Endpoints that an InferencePool or a label selector stands for."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from epp.discovery.kubernetes.access import AccessError
from epp.discovery.kubernetes.api import ApiClient, Query, Resource
from epp.discovery.kubernetes.follower import Follower, FollowPolicy
from epp.discovery.kubernetes.joining import Joiner, Teller
from epp.discovery.kubernetes.members import Members, members_of, picker_of
from epp.discovery.kubernetes.objects import Objective, Pod, Pool, Rewrite
from epp.discovery.kubernetes.rewrites import rules_of
from epp.discovery.source import Pause, Sink
from epp.request import RewriteRule

__all__ = ["GROUPS", "KubernetesSource", "PoolName", "Surroundings"]

GROUPS: Final[Mapping[str, str]] = {
    "inference.networking.k8s.io": "v1",
    "inference.networking.x-k8s.io": "v1alpha2",
}
"""Groups in which there are InferencePools, with the version that is read."""

_OBJECTIVE_GROUPS: Final = ("inference.networking.x-k8s.io", "llm-d.ai")  # a later one decides
_ALPHA: Final = "v1alpha2"
_NO_ACCESS_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class PoolName:
    """Which InferencePool."""

    name: str
    group: str = "inference.networking.k8s.io"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a source is given.

    Attributes:
        new_pause: makes the pause of one loop.
        random: a number in [0, 1).
        on_priorities: hears the priority of each objective of the pool, by name, whenever one changes.
        on_rewrites: hears the rules of the pool's model rewrites, whenever one changes; None: the router does
            not rewrite, and it is said that they are not applied.
        on_remark: hears what an operator should read; a source says each thing once.
        on_note: hears likewise what is as it should be.
        policy: when to look.
    """

    new_pause: Callable[[], Pause]
    random: Callable[[], float]
    on_priorities: Callable[[Mapping[str, int]], None] = lambda _: None
    on_rewrites: Callable[[Sequence[RewriteRule]], None] | None = None
    on_remark: Callable[[str], None] = lambda _: None
    on_note: Callable[[str], None] = lambda _: None
    policy: FollowPolicy = field(default_factory=FollowPolicy)


class KubernetesSource:
    """Follows a pool, the pods that it selects and the objectives that name it; or the pods of a selector.

    A pool that does not exist has no endpoints. One that cannot be read, or asks for what is not spoken,
    leaves the endpoints as they were; so does an API server that does not answer, or forbids.
    """

    def __init__(
        self,
        new_client: Callable[[], ApiClient],
        namespace: str,
        target: PoolName | Members,
        around: Surroundings,
        *,
        scheme: str = "http",
    ) -> None:
        """`new_client` is called on the running loop each time the source runs; it may raise AccessError."""
        self.name = f"kubernetes {_shown(target)} in namespace {namespace}"
        self._new_client = new_client
        self._namespace = namespace
        self._target = target
        self._around = around
        self._scheme = scheme

    async def run(self, sink: Sink) -> None:
        """Follow until cancelled."""
        client = await self._client(sink)
        try:
            async with asyncio.TaskGroup() as group:
                _Run(client, group, sink, self._namespace, self._target, self._around, self._scheme).start()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            await client.close()

    async def _client(self, sink: Sink) -> ApiClient:
        pause = self._around.new_pause()
        while True:
            try:
                return self._new_client()
            except AccessError as error:
                sink.fail(str(error))
                await pause(_NO_ACCESS_S)


def _shown(target: PoolName | Members) -> str:
    if isinstance(target, PoolName):
        return f"pool {target.name}"
    return f"pods {target.selector} at {','.join(str(port) for port in target.ports)}"


class _Run:
    """One run of a source: its followers, and what they say together."""

    def __init__(
        self,
        client: ApiClient,
        group: asyncio.TaskGroup,
        sink: Sink,
        namespace: str,
        target: PoolName | Members,
        around: Surroundings,
        scheme: str,
    ) -> None:
        self._client = client
        self._group = group
        self._namespace = namespace
        self._target = target
        self._around = around
        self._remarks: set[str] = set()
        self._joiner = Joiner(scheme, self._remark)
        self._teller = Teller(sink)
        self._pool: Follower[Pool] | None = None
        self._pods: Follower[Pod] | None = None
        self._pods_task: asyncio.Task[None] | None = None
        self._objectives: list[Follower[Objective]] = []
        self._rewrites: Follower[Rewrite] | None = None
        self._members: Members | None = None  # as told last
        self._gone = False  # the pool
        self._fault: str | None = None  # of the pool

    def start(self) -> None:
        """Begin to follow; returns at once."""
        if isinstance(self._target, Members):
            self._members = self._target
            self._follow_pods(self._target.selector)
            return
        name, group = self._target.name, self._target.group
        self._pool = Follower(
            self._client,
            Query(self._resource(group, GROUPS[group], "inferencepools"), fields=f"metadata.name={name}"),
            Pool,
            **self._common(self._on_pool),
        )
        self._spawn(self._pool)
        for other in _OBJECTIVE_GROUPS:
            query = Query(self._resource(other, _ALPHA, "inferenceobjectives"))
            common = self._common(self._on_objectives)
            self._objectives.append(Follower(self._client, query, Objective, optional=True, **common))
        query = Query(self._resource("llm-d.ai", _ALPHA, "inferencemodelrewrites"))
        common = self._common(self._on_rewrites)
        self._rewrites = Follower(self._client, query, Rewrite, optional=True, **common)
        self._spawn(self._rewrites)
        for follower in self._objectives:
            self._spawn(follower)

    def _resource(self, group: str, version: str, plural: str) -> Resource:
        return Resource(group, version, plural, self._namespace)

    def _common(self, on_news: Callable[[], None]) -> dict[str, Any]:
        around = self._around
        return {
            "on_news": on_news,
            "on_remark": self._remark,
            "pause": around.new_pause(),
            "random": around.random,
            "policy": around.policy,
        }

    def _spawn(self, follower: Follower[Any]) -> asyncio.Task[None]:
        return self._group.create_task(follower.run(), name=f"follow {follower.query.resource}")

    def _remark(self, text: str) -> None:
        self._say(text, self._around.on_remark)

    def _say(self, text: str, hears: Callable[[str], None]) -> None:
        """Each thing once."""
        if text not in self._remarks:
            self._remarks.add(text)
            hears(text)

    def _follow_pods(self, selector: str) -> None:
        """Follow the pods of `selector`; what other pods gave stays told until these are listed."""
        if self._pods_task is not None:
            self._pods_task.cancel()
        query = Query(self._resource("", "v1", "pods"), labels=selector)
        self._pods = Follower(self._client, query, Pod, **self._common(self._tell))
        self._pods_task = self._spawn(self._pods)

    def _on_pool(self) -> None:
        if self._pool is not None and self._pool.objects is not None and isinstance(self._target, PoolName):
            self._take_pool(self._pool.objects.get(self._target.name))
        self._tell()

    def _take_pool(self, pool: Pool | None) -> None:
        self._gone, self._fault = pool is None, None
        if pool is None:
            self._fault = f"there is no InferencePool {self._namespace}/{self._where()}"
            return
        try:
            members = members_of(pool)
        except ValueError as error:
            self._fault = f"InferencePool {self._namespace}/{self._where()}: {error}"
            return
        if self._pods is None or members.selector != self._pods.query.labels:
            self._follow_pods(members.selector)
        self._members = members
        picker = picker_of(pool)
        if picker is not None:
            self._say(f"InferencePool {self._namespace}/{self._where()}: {picker}", self._around.on_note)

    def _where(self) -> str:
        return self._target.name if isinstance(self._target, PoolName) else ""

    def _tell(self) -> None:
        pods = self._pods.objects if self._pods is not None else None
        followers = [follower for follower in (self._pool, self._pods) if follower is not None]
        problems = [follower.problem for follower in followers if follower.problem is not None]
        failures = sum(follower.failures for follower in followers)
        if self._fault is not None:
            problems.append(self._fault)
        problem = "; ".join(problems) or None
        if self._gone:
            self._teller.tell((), problem, failures)
        elif pods is None or self._members is None or self._fault is not None:
            self._teller.tell(None, problem, failures)
        else:
            self._teller.tell(self._joiner.endpoints(pods, self._members), problem, failures)

    def _on_objectives(self) -> None:
        found = {
            name: objective.spec.priority or 0
            for follower in self._objectives
            for name, objective in (follower.objects or {}).items()
            if objective.spec.pool_ref.name == self._where()
        }
        self._around.on_priorities(found)

    def _on_rewrites(self) -> None:
        objects = self._rewrites.objects if self._rewrites is not None else None
        found = [r for r in (objects or {}).values() if r.spec.pool_ref.name == self._where()]
        if self._around.on_rewrites is not None:
            self._around.on_rewrites(rules_of(found, self._remark))
            return
        for rewrite in found:
            name = rewrite.metadata.name
            self._remark(f"InferenceModelRewrite {name} is not applied: bodies are not changed here")
