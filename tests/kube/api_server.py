"""A Kubernetes API server as far as clients that list, watch and hold leases can tell.

Kept from the real one: one revision counter for everything; lists in pages that show one moment; watches that
go on from a revision, with ADDED, MODIFIED and DELETED as the *selector* sees them (an object whose labels stop
matching is DELETED), bookmarks, `timeoutSeconds`, and an ERROR event with 410 when the revision has been
compacted away; Status objects for every refusal; 409 for a write that is based on an old version. Reviews of
tokens and of access answer from `users` and `granted`, and are kept nowhere.

Breaks are made by the test: `forbid`, `remove_kind`, `drop_watches`, `stall`, `compact`, `stop` and `start`.
"""

import asyncio
import contextlib
import copy
import json
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

__all__ = ["ApiServer", "Change", "RunningApiServer"]

_UNTIL_MADE = 4  # turns of the loop from an accepted connection to its first callback

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    500: "InternalError",
}


@dataclass
class Change:
    """One step of history: what an object was and became; None: it was not there."""

    revision: int
    key: tuple[str, str, str]  # path of the collection without namespace, namespace, name
    before: dict | None
    after: dict | None


@dataclass(eq=False)
class Watch:
    """One open watch."""

    kind: str
    news: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: bool = False
    bookmarks: int = 0


class RefusedError(Exception):
    """A Status is the answer."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class ApiServer:
    """The objects and the rules; `RunningApiServer` puts it on a socket.

    `asked` holds (verb, collection, parameters) of every request.
    """

    def __init__(self):
        self.revision = 100
        self.objects: dict[tuple[str, str, str], dict] = {}
        self.history: list[Change] = []
        self.compacted = 0
        self.kinds: set[str] = {
            "/api/v1/pods",
            "/apis/inference.networking.k8s.io/v1/inferencepools",
            "/apis/inference.networking.x-k8s.io/v1alpha2/inferencepools",
            "/apis/inference.networking.x-k8s.io/v1alpha2/inferenceobjectives",
            "/apis/llm-d.ai/v1alpha2/inferenceobjectives",
            "/apis/llm-d.ai/v1alpha2/inferencemodelrewrites",
            "/apis/coordination.k8s.io/v1/leases",
            "/api/v1/events",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        }
        self.users: dict[str, dict] = {}  # token → user, as a TokenReview tells it
        self.granted: set[tuple[str, str, str]] = set()  # (user or group, verb, non-resource URL)
        self.forbidden: set[tuple[str, str]] = set()
        self.failing: set[str] = set()  # plurals that answer 500
        self.token: str | None = None
        self.asked: list[tuple[str, str, dict]] = []
        self.watches: list[Watch] = []
        self.stalled = False
        self.cut_at: int | None = None  # bytes of a watch after which its connection is reset
        self.snapshots: dict[str, tuple[list, int]] = {}

    # What a test does to the world

    def put(self, kind, obj):
        """Create or replace an object, as a controller would."""
        kind = self.path(kind)
        obj = copy.deepcopy(obj)
        meta = obj["metadata"]
        key = (kind, meta.setdefault("namespace", "ns"), meta["name"])
        before = self.objects.get(key)
        self.revision += 1
        meta["resourceVersion"] = str(self.revision)
        meta.setdefault("uid", f"uid-{meta['name']}")
        self.objects[key] = obj
        self._changed(key, before, obj)
        return obj

    def delete(self, kind, name, namespace="ns"):
        """Remove an object; nothing happens when it is not there."""
        key = (self.path(kind), namespace, name)
        before = self.objects.pop(key, None)
        if before is not None:
            self.revision += 1
            self._changed(key, before, None)

    def path(self, kind):
        """The collection of a plural, the first of its groups unless a whole path is given."""
        if kind.startswith("/"):
            return kind
        return next(path for path in sorted(self.kinds) if path.endswith(f"/{kind}"))

    def forbid(self, verb, plural):
        self.forbidden.add((verb, plural))

    def allow(self, verb, plural):
        self.forbidden.discard((verb, plural))

    def remove_kind(self, kind):
        self.kinds.discard(self.path(kind))

    def compact(self):
        """Forget history: watches from an earlier revision get 410."""
        self.compacted = self.revision
        self.history.clear()

    def drop_watches(self):
        """Cut the connections of all watches, without an end."""
        for watch in self.watches:
            watch.dropped = True
            watch.news.set()

    def bookmark(self):
        """Send a bookmark on every watch."""
        for watch in self.watches:
            watch.bookmarks += 1
            watch.news.set()

    def _changed(self, key, before, after):
        self.history.append(Change(self.revision, key, before, after))
        for watch in self.watches:
            watch.news.set()

    # What a client asks

    def check(self, verb, kind, head):
        plural = kind.rpartition("/")[2]
        if self.token is not None and head.get("authorization") != f"Bearer {self.token}":
            raise RefusedError(401, "Unauthorized")
        if (verb, plural) in self.forbidden:
            raise RefusedError(403, f'{plural} is forbidden: User "epp" cannot {verb} resource "{plural}"')
        if kind not in self.kinds:
            raise RefusedError(404, "the server could not find the requested resource")
        if plural in self.failing:
            raise RefusedError(500, "etcdserver: request timed out")

    def listing(self, kind, namespace, query):
        if query.get("continue"):
            items, revision = self.snapshots.pop(query["continue"], (None, 0))
            if items is None:
                raise RefusedError(410, "The provided continue parameter is too old")
        else:
            found = [o for k, o in sorted(self.objects.items()) if k[:2] == (kind, namespace)]
            items, revision = [o for o in found if matches(o, query)], self.revision
        limit = int(query.get("limit", 0)) or len(items)
        meta = {"resourceVersion": str(revision)}
        if len(items) > limit:
            meta["continue"] = f"c{len(self.snapshots)}-{revision}-{len(items)}"
            self.snapshots[meta["continue"]] = (items[limit:], revision)
        return {"kind": "List", "metadata": meta, "items": items[:limit]}

    def events_after(self, revision, kind, namespace, query):
        """(revision, event) of what a watch must still say."""
        for change in self.history:
            if change.revision <= revision or change.key[:2] != (kind, namespace):
                continue
            was = change.before is not None and matches(change.before, query)
            now = change.after is not None and matches(change.after, query)
            if now:
                yield change.revision, {"type": "MODIFIED" if was else "ADDED", "object": change.after}
            elif was:
                last = copy.deepcopy(change.after or change.before)
                last["metadata"]["resourceVersion"] = str(change.revision)
                yield change.revision, {"type": "DELETED", "object": last}

    def write(self, method, kind, namespace, name, body):
        obj = json.loads(body)
        key = (kind, namespace, name or obj["metadata"]["name"])
        known = self.objects.get(key)
        if method == "POST" and known is not None:
            raise RefusedError(409, f"{key[2]} already exists")
        if method == "PUT":
            if known is None:
                raise RefusedError(404, f"{key[2]} not found")
            version = obj["metadata"].get("resourceVersion")
            if version and version != known["metadata"]["resourceVersion"]:
                raise RefusedError(
                    409, "the object has been modified; please apply your changes to the latest"
                )
        obj["metadata"]["namespace"] = namespace
        return self.put(kind, obj)

    def review(self, kind, body):
        """The object with its status."""
        obj = json.loads(body)
        spec = obj["spec"]
        if kind.endswith("/tokenreviews"):
            user = self.users.get(spec["token"])
            told = {"authenticated": True, "user": user} if user else {"error": "invalid bearer token"}
        else:
            asked = spec["nonResourceAttributes"]
            owners = {spec.get("user"), *(spec.get("groups") or ())}
            allowed = any((owner, asked["verb"], asked["path"]) in self.granted for owner in owners)
            told = {"allowed": allowed}
        return {**obj, "status": told}


def matches(obj, query):
    """Equality in label selectors, and metadata.name in field selectors."""
    labels = obj["metadata"].get("labels") or {}
    for part in filter(None, query.get("labelSelector", "").split(",")):
        key, _, value = part.partition("=")
        if labels.get(key) != value:
            return False
    wanted = query.get("fieldSelector", "")
    return not wanted or obj["metadata"]["name"] == wanted.removeprefix("metadata.name=")


class RunningApiServer(ApiServer):
    """An API server on a port of loopback that survives `stop` and `start`."""

    port = 0
    tls = None  # a server context: it speaks HTTPS then

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_exc):
        await self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def start(self):
        self._serving, self._writers = set(), set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        """Close the port and every connection."""
        # asyncio loses the socket of a connection that it has accepted and not yet made when its server closes:
        # the client would wait for ever.
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_UNTIL_MADE):
            await asyncio.sleep(0)
        self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    def _connected(self, reader, writer):
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        self._writers.add(writer)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.close())  # also of a task that never began

    async def _serve(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._one(reader, writer):
                pass

    async def _one(self, reader, writer):
        """One request; False when the connection ends with it."""
        request_line = await reader.readline()
        if not request_line:
            return False
        method, target, _ = request_line.decode().split()
        head = {}
        while line := (await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            head[name.lower()] = value.strip()
        body = await reader.readexactly(int(head.get("content-length", 0)))
        try:
            return await self._answer(writer, method, target, head, body)
        except RefusedError as refused:
            reason = REASONS[refused.code]
            if refused.code == 409 and method == "POST":
                reason = "AlreadyExists"
            status = {"kind": "Status", "status": "Failure", "message": str(refused)}
            await send(writer, refused.code, {**status, "reason": reason, "code": refused.code})
            return True

    async def _answer(self, writer, method, target, head, body):
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        root, _, rest = url.path.partition("/namespaces/")
        namespace, plural, *name = rest.split("/") if rest else ("", root.rpartition("/")[2])
        kind = f"{root}/{plural}" if rest else root
        watching = query.get("watch") == "true"
        verb = {"POST": "create", "PUT": "update"}.get(method) or (
            "watch" if watching else "get" if name else "list"
        )
        self.asked.append((verb, kind, query))
        self.check(verb, kind, head)
        if watching:
            await self._watch(writer, kind, namespace, query)
            return False
        if kind.endswith("reviews"):
            await send(writer, 201, self.review(kind, body))
        elif verb == "list":
            await send(writer, 200, self.listing(kind, namespace, query))
        elif verb == "get":
            found = self.objects.get((kind, namespace, name[0]))
            if found is None:
                raise RefusedError(404, f"{plural} {name[0]!r} not found")
            await send(writer, 200, found)
        else:
            written = self.write(method, kind, namespace, name[0] if name else "", body)
            await send(writer, 201 if method == "POST" else 200, written)
        return True

    async def _watch(self, writer, kind, namespace, query):
        revision = int(query.get("resourceVersion") or self.revision)
        watch = Watch(kind)
        self.watches.append(watch)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        sent = 0
        try:
            async with asyncio.timeout(float(query.get("timeoutSeconds", 3600))):
                while True:
                    watch.news.clear()
                    if watch.dropped:
                        writer.transport.abort()
                        return
                    if revision < self.compacted:
                        await chunk(writer, too_old(revision, self.compacted))
                        break
                    events = [] if self.stalled else list(self.events_after(revision, kind, namespace, query))
                    for at, event in events:
                        revision = at
                        sent += await chunk(writer, event, self.cut_at)
                        if self.cut_at is not None and sent >= self.cut_at:
                            writer.transport.abort()
                            return
                    for _ in range(watch.bookmarks):
                        await chunk(writer, bookmark_of(self.revision))
                    watch.bookmarks = 0
                    await watch.news.wait()
        except TimeoutError:
            pass
        finally:
            self.watches.remove(watch)
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def too_old(revision, oldest):
    message = f"too old resource version: {revision} ({oldest})"
    status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": message}
    return {"type": "ERROR", "object": status}


def bookmark_of(revision):
    return {"type": "BOOKMARK", "object": {"metadata": {"name": "", "resourceVersion": str(revision)}}}


async def chunk(writer, event, cut_at=None):
    line = json.dumps(event).encode() + b"\n"
    line = line if cut_at is None else line[:cut_at]
    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
    await writer.drain()
    return len(line)


async def send(writer, code, document):
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
