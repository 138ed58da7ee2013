"""The API server's verbs, over httpx: list in pages, watch as batches of events, and single objects."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec

from epp.discovery.kubernetes.access import Access
from epp.discovery.kubernetes.access_error import AccessError

__all__ = ["ApiClient", "ApiError", "Event", "Listing", "Query", "Resource", "WatchEndedError"]

_PAGE: Final = 100  # objects; a page of pods is about 1 MB and takes 2 ms to read
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 30.0
_GONE: Final = 410
_MAX_LINE: Final = 16 << 20
_TOKEN: Final = re.compile(r"[!-~]*")
_TOLD: Final = 300  # characters of a server's message


class ApiError(Exception):
    """The API server did not do what it was asked; one line that names verb and resource.

    `status` is the HTTP status, 0 where there was no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class WatchEndedError(Exception):
    """A watch broke off, stalled, or began too late in history; to list again is all there is to do."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of objects in one namespace, or of the cluster: `namespace` is "" then."""

    group: str  # "" for the core
    version: str
    plural: str
    namespace: str

    @property
    def path(self) -> str:
        """Where the server has its collection."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return (
            f"{root}/namespaces/{self.namespace}/{self.plural}" if self.namespace else f"{root}/{self.plural}"
        )

    def __str__(self) -> str:
        """As a Role names it, with its namespace."""
        name = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{name} in namespace {self.namespace}" if self.namespace else f"{name} of the cluster"


@dataclass(frozen=True, slots=True)
class Query:
    """Which objects of a resource; selectors as the server reads them, "" for all."""

    resource: Resource
    labels: str = ""
    fields: str = ""

    @property
    def parameters(self) -> dict[str, str]:
        """For the query string."""
        given = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of one moment, as JSON, and the version that a watch goes on from."""

    items: tuple[msgspec.Raw, ...]
    version: str


class Event(msgspec.Struct):
    """What happened to one object: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0


class ApiClient:
    """Speaks to one API server; nothing of the environment, such as a proxy, has a say."""

    def __init__(self, access: Access, *, stall_s: float) -> None:
        """A watch on which nothing comes for `stall_s` counts as broken."""
        self._access = access
        self._stall_s = stall_s
        self._http = httpx.AsyncClient(
            base_url=access.server,
            verify=access.tls if access.tls is not None else False,
            trust_env=False,
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def list_all(self, query: Query) -> Listing:
        """Every object, page by page.

        Raises:
            ApiError: with the verb and the resource.
        """
        items: list[msgspec.Raw] = []
        parameters = {**query.parameters, "limit": str(_PAGE)}
        while True:
            body = await self.ask("list", query.resource, parameters=parameters)
            page = _decode(body, _Page, "list", query.resource)
            items += page.items or ()
            if not page.metadata.continue_:
                return Listing(tuple(items), page.metadata.resource_version)
            parameters["continue"] = page.metadata.continue_

    async def watch(self, query: Query, version: str, timeout_s: float) -> AsyncGenerator[list[Event], None]:
        """What happens after `version`, in batches as they arrive; the first is empty and says that it began.

        It ends when the server ends it, which is asked to do so after `timeout_s`.

        Raises:
            ApiError: the server refused.
            WatchEndedError: it broke off, or `version` is too old.
        """
        parameters = {
            **query.parameters,
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(timeout_s))),
        }
        timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S, read=self._stall_s)
        head = await self._head("watch", query.resource)
        try:
            async with self._http.stream(
                "GET", query.resource.path, params=parameters, headers=head, timeout=timeout
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    await answer.aread()
                    raise self._refused("watch", query.resource, answer, head)
                yield []
                async for events in _batches(answer.aiter_bytes()):
                    yield events
        except httpx.ConnectError as error:
            raise ApiError(self._unreachable("watch", query.resource, error)) from None
        except httpx.HTTPError as error:
            raise WatchEndedError(type(error).__name__) from None

    async def ask(
        self,
        verb: str,
        resource: Resource,
        *,
        method: str = "GET",
        name: str = "",
        parameters: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> bytes:
        """One request and its answer; `verb` is the one of a Role, for messages.

        Raises:
            ApiError: with the verb and the resource.
        """
        path = f"{resource.path}/{name}" if name else resource.path
        head = await self._head(verb, resource)
        try:
            answer = await self._http.request(method, path, params=parameters, headers=head, content=body)
        except httpx.HTTPError as error:
            raise ApiError(self._unreachable(verb, resource, error)) from None
        if not answer.is_success:
            raise self._refused(verb, resource, answer, head)
        return answer.content

    def _refused(
        self, verb: str, resource: Resource, answer: httpx.Response, head: Mapping[str, str]
    ) -> Exception:
        if self._access.plugin is not None and answer.status_code == httpx.codes.UNAUTHORIZED:
            self._access.plugin.reject(head.get("Authorization", "").removeprefix("Bearer "))
        return _refusal(verb, resource, answer.status_code, answer.content)

    async def _head(self, verb: str, resource: Resource) -> dict[str, str]:
        try:
            if self._access.plugin is not None:
                await self._access.plugin.renew()
            token = self._access.token()
        except AccessError as error:
            raise ApiError(f"cannot {verb} {resource}: {error}") from None
        except (OSError, UnicodeDecodeError) as error:
            told = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ApiError(f"cannot {verb} {resource}: cannot read the token: {told}") from None
        if not _TOKEN.fullmatch(token):
            raise ApiError(f"cannot {verb} {resource}: the token is not one line of printable ASCII")
        head = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "epp"}
        return {**head, "Authorization": f"Bearer {token}"} if token else head

    def _unreachable(self, verb: str, resource: Resource, error: httpx.HTTPError) -> str:
        told = str(error) or type(error).__name__
        return f"cannot {verb} {resource}: no answer from {self._access.server}: {told:.{_TOLD}}"


def _refusal(verb: str, resource: Resource, status: int, body: bytes) -> Exception:
    if status == _GONE and verb == "watch":
        return WatchEndedError("410 Gone")
    try:
        found = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        found = _Status()
    told = ": ".join(part for part in (found.reason, found.message) if part)
    return ApiError(f"cannot {verb} {resource}: {status} {told:.{_TOLD}}".rstrip(), status)


async def _batches(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[Event]]:
    """Events, one a line, as far as each chunk completes them; an ERROR ends it."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE:
            raise WatchEndedError("an event has no end")
        events = [_event(line) for line in lines if line.strip()]
        if events:
            yield events


def _event(line: bytes) -> Event:
    try:
        event = msgspec.json.decode(line, type=Event)
    except msgspec.MsgspecError as error:
        raise WatchEndedError(f"an event cannot be read: {error}") from None
    if event.type == "ERROR":
        raise WatchEndedError(bytes(event.object)[:_TOLD].decode("utf-8", "replace"))
    return event


def _decode(body: bytes, kind: type[Any], verb: str, resource: Resource) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ApiError(f"cannot {verb} {resource}: the answer cannot be read: {error}") from None
