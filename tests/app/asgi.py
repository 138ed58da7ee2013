"""Calls an ASGI application without a server."""

import asyncio
from dataclasses import dataclass


@dataclass
class Answer:
    """What an application sent."""

    status: int
    headers: dict[str, str]
    body: bytes


async def call(app, path="/", method="GET", headers=None, client=("127.0.0.1", 50_000), **scope) -> Answer:
    """One HTTP request without a body."""
    sent = []

    whole = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive():
        return whole.pop() if whole else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    pairs = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
    request = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": pairs,
        "client": client,
        "server": ("127.0.0.1", 80),
        **scope,
    }
    await app(request, receive, send)
    start, *rest = sent
    found = {k.decode().lower(): v.decode() for k, v in start["headers"]}
    return Answer(start["status"], found, b"".join(message.get("body", b"") for message in rest))


class Lifespan:
    """The server's side of the lifespan protocol."""

    def __init__(self, app):
        self._app = app
        self.sent = []

    async def run(self):
        """From startup to shutdown, at once."""
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive():
            return next(messages)

        async def send(message):
            self.sent.append(message)

        await self._app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
        return [message["type"] for message in self.sent]


def named(name):
    """An application that answers 200 with its name and the path."""

    async def serve(scope, receive, send):
        body = f"{name} {scope['path']}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return serve
