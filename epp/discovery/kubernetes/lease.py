"""Who leads, by a Lease: one of several replicas holds it and renews it, the others wait for it."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from epp.clock import Clock
from epp.discovery.kubernetes.access import AccessError
from epp.discovery.kubernetes.api import ApiClient, ApiError, Resource
from epp.discovery.source import Pause

__all__ = ["LeaderElection", "LeasePolicy", "lease_name"]

_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_CONFLICT: Final = 409
_MAX_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """How long a lease holds, and how often it is renewed or asked for.

    Attributes:
        duration_s: whole seconds; a leader that has not renewed it for so long leads no more, and another
            replica takes it when it has seen no renewal for so long.
        renew_s: between two turns; a lease that is given back is taken within one.
        answer_s: for the API server to answer.
    """

    duration_s: int = 4
    renew_s: float = 1.0
    answer_s: float = 2.0


def lease_name(namespace: str, pool: str) -> str:
    """The name that the Go picker uses, so that both agree while one is replaced by the other."""
    return f"epp-{namespace}-{pool}.llm-d.ai"[-_MAX_NAME:].lstrip("-.")


class LeaderElection:
    """Takes part in an election until it is told to stop.

    Times of other machines are never compared: what counts is how long the lease has not changed, by the own
    clock.

    Attributes:
        holder: who held the lease when it was read last, "" for nobody.
        problem: why the last turn failed, None if it did not.
    """

    def __init__(
        self,
        new_client: Callable[[], ApiClient],
        resource: Resource,
        name: str,
        identity: str,
        *,
        clock: Clock,
        today: Callable[[], datetime],
        pause: Pause,
        on_change: Callable[[str], None],
        policy: LeasePolicy | None = None,
    ) -> None:
        """`today` is the time in UTC, for the lease's own fields; `on_change` hears what has changed."""
        self.holder = ""
        self.problem: str | None = None
        self._new_client = new_client
        self._resource = resource
        self._events = Resource("", "v1", "events", resource.namespace)
        self._name = name
        self._identity = identity
        self._clock = clock
        self._today = today
        self._pause = pause
        self._on_change = on_change
        self._policy = policy or LeasePolicy()
        self._leads_until = -1.0
        self._seen: tuple[Any, ...] = ()
        self._seen_at = 0.0
        self._told = False
        self._records = True  # until it turns out that it may not
        self._recording: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._released = asyncio.Event()

    @property
    def leading(self) -> bool:
        """Whether this replica may say that it leads; never longer than its last renewal holds."""
        return self._clock.monotonic() < self._leads_until

    def give_back(self) -> None:
        """Lead no more, and let another one have the lease at once."""
        self._stopping.set()

    async def given_back(self) -> None:
        """Wait until the lease has been given back, as long as the API server has to answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._policy.answer_s):
                await self._released.wait()

    async def run(self) -> None:
        """Take part; never returns."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while not stopping.done():
                await self._guarded(self._turn)
                if self._tell():  # not waited for: a slow record must not cost the lease
                    self._recording = asyncio.create_task(self._record())
                turn = asyncio.ensure_future(self._pause(self._policy.renew_s))
                await asyncio.wait({turn, stopping}, return_when=asyncio.FIRST_COMPLETED)
                turn.cancel()
            if self.leading:
                await self._guarded(self._release)
            self._leads_until = -1.0
            if self._tell():
                await self._record()
            self._released.set()
            await asyncio.Event().wait()
        finally:
            stopping.cancel()
            if self._recording is not None:
                self._recording.cancel()
                await asyncio.gather(self._recording, return_exceptions=True)

    async def _guarded(self, work: Callable[[ApiClient], Any]) -> None:
        """Do something with the API server, in time; what fails is a problem and ends nothing."""
        try:
            client = self._new_client()
        except AccessError as error:
            self.problem = str(error)
            return
        try:
            async with asyncio.timeout(self._policy.answer_s):
                await work(client)
            self.problem = None
        except ApiError as error:
            self.problem = None if error.status == _CONFLICT else str(error)
        except TimeoutError:
            self.problem = f"cannot update {self._resource}: no answer in {self._policy.answer_s:g} s"
        finally:
            await client.close()

    async def _turn(self, client: ApiClient) -> None:
        asked_at = self._clock.monotonic()
        lease = await self._read(client)
        if lease is None:
            await self._write(client, "create", {"metadata": {"name": self._name}, "spec": {}})
        elif self._may_take(lease["spec"], asked_at):
            await self._write(client, "update", lease)
        else:
            self._leads_until = -1.0
            return
        self.holder, self._leads_until = self._identity, asked_at + self._policy.duration_s

    async def _read(self, client: ApiClient) -> dict[str, Any] | None:
        try:
            body = await client.ask("get", self._resource, name=self._name)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        lease: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        lease["spec"] = lease.get("spec") or {}
        return lease

    def _may_take(self, spec: dict[str, Any], now: float) -> bool:
        """Whether the lease is mine, nobody's, or of one who has not renewed it in time."""
        self.holder = str(spec.get("holderIdentity") or "")
        seen = (self.holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        if self.holder in {"", self._identity}:
            return True
        duration_s = spec.get("leaseDurationSeconds") or self._policy.duration_s
        return now - self._seen_at >= float(duration_s)

    async def _write(self, client: ApiClient, verb: str, lease: dict[str, Any]) -> None:
        """Make the lease mine, unless somebody was faster: the server compares versions."""
        spec, now = lease["spec"], self._today().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self._identity:
            transitions = int(spec.get("leaseTransitions") or 0) + (verb == "update")
            spec |= {"acquireTime": now, "leaseTransitions": transitions}
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._policy.duration_s,
            "renewTime": now,
        }
        await self._send(client, verb, lease)

    async def _release(self, client: ApiClient) -> None:
        lease = await self._read(client)
        if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._send(client, "update", lease)
            self.holder = ""

    async def _send(self, client: ApiClient, verb: str, lease: dict[str, Any]) -> None:
        document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        method, name = ("POST", "") if verb == "create" else ("PUT", self._name)
        body = msgspec.json.encode(document)
        await client.ask(verb, self._resource, method=method, name=name, body=body)

    def _tell(self) -> bool:
        """Say whether this replica leads, if that is news."""
        if self.leading is self._told:
            return False
        self._told = self.leading
        self._on_change("leading" if self._told else f"not leading; {self.holder or 'nobody'} is")
        return True

    async def _record(self) -> None:
        """Make an Event of it, for `kubectl get events`; what fails is told and ends nothing."""
        if not self._records:
            return
        try:
            client = self._new_client()
        except AccessError:
            return
        try:
            async with asyncio.timeout(self._policy.answer_s):
                await client.ask(
                    "create", self._events, method="POST", body=msgspec.json.encode(self._event())
                )
        except (ApiError, TimeoutError) as error:
            self._records = not (isinstance(error, ApiError) and error.status == _FORBIDDEN)
            self._on_change(f"no Event was recorded: {str(error) or 'no answer'}")
        finally:
            await client.close()

    def _event(self) -> dict[str, Any]:
        now = self._today()
        at, lease = (
            now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            {"name": self._name, "namespace": self._resource.namespace},
        )
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {**lease, "name": f"{self._name}.{int(now.timestamp() * 1e6):x}"},
            "involvedObject": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease},
            "type": "Normal",
            "reason": "LeaderElection",
            "message": f"{self._identity} {'became leader' if self._told else 'stopped leading'}",
            "source": {"component": "epp"},
            "reportingComponent": "epp",
            "reportingInstance": self._identity,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
