"""Whose a bearer token is and what its owner may do, as the API server says.

It is asked with a TokenReview, then with a SubjectAccessReview.
"""

import asyncio
import enum
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from epp.clock import Clock
from epp.discovery.kubernetes.access import AccessError
from epp.discovery.kubernetes.api import ApiClient, ApiError, Resource

__all__ = ["Reviewer", "Ruling", "Verdict"]

_TOKENS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "")
_ACCESS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "")
_ALLOWED_S: Final = 60.0  # a token that is withdrawn is good for so long
_REFUSED_S: Final = 10.0  # one that is granted something is refused for so long
_MOST: Final = 256
_AT_ONCE: Final = 4
_WAITING: Final = 32
_MAX_TOKEN: Final = 16 << 10
_ANSWER_S: Final = 5.0


class Verdict(enum.Enum):
    """What came of a review."""

    ALLOWED = enum.auto()
    UNKNOWN_TOKEN = enum.auto()
    FORBIDDEN = enum.auto()
    FAILED = enum.auto()  # nobody knows: to be refused


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict, and what to tell: for FORBIDDEN the user, for FAILED why."""

    verdict: Verdict
    detail: str = ""


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: dict[str, Any] = {}
    error: str = ""


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class Reviewer:
    """Asks the API server, and remembers for a while what it said; failures are not remembered.

    Tokens are kept as hashes. At most 4 reviews go on at a time; more than 32 that wait are refused.
    """

    def __init__(self, new_client: Callable[[], ApiClient], clock: Clock) -> None:
        """`new_client` may raise AccessError."""
        self._new_client = new_client
        self._clock = clock
        self._client: ApiClient | None = None
        self._known: OrderedDict[tuple[bytes, str, str], tuple[float, Ruling]] = OrderedDict()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def rule(self, token: str, verb: str, path: str) -> Ruling:
        """Whether the owner of `token` may do `verb` on the non-resource URL `path`."""
        if not token or len(token) > _MAX_TOKEN:
            return Ruling(Verdict.UNKNOWN_TOKEN)
        key = (hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), verb, path)
        known = self._recall(key)
        if known is not None:
            return known
        if self._waiting >= _WAITING:
            return Ruling(Verdict.FAILED, "too many reviews wait for the API server")
        self._waiting += 1
        try:
            async with self._turns:
                return self._recall(key) or await self._review(key, token)
        finally:
            self._waiting -= 1

    def _recall(self, key: tuple[bytes, str, str]) -> Ruling | None:
        until, ruling = self._known.get(key, (0.0, None))
        return ruling if self._clock.monotonic() < until else None

    async def _review(self, key: tuple[bytes, str, str], token: str) -> Ruling:
        try:
            async with asyncio.timeout(_ANSWER_S):
                ruling = await self._ask(token, key[1], key[2])
        except (AccessError, ApiError) as error:
            return Ruling(Verdict.FAILED, str(error))
        except TimeoutError:
            return Ruling(Verdict.FAILED, f"the API server did not answer in {_ANSWER_S:g} s")
        lasts_s = _ALLOWED_S if ruling.verdict is Verdict.ALLOWED else _REFUSED_S
        self._known.pop(key, None)
        self._known[key] = (self._clock.monotonic() + lasts_s, ruling)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return ruling

    async def _ask(self, token: str, verb: str, path: str) -> Ruling:
        if self._client is None:
            self._client = self._new_client()
        found = await self._create(self._client, _TOKENS, "TokenReview", {"token": token}, _TokenReview)
        if not found.status.authenticated:
            return Ruling(Verdict.UNKNOWN_TOKEN)
        user = found.status.user
        spec = {
            "user": user.get("username", ""),
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        access = await self._create(self._client, _ACCESS, "SubjectAccessReview", spec, _AccessReview)
        if access.status.allowed and not access.status.denied:
            return Ruling(Verdict.ALLOWED)
        return Ruling(Verdict.FORBIDDEN, str(user.get("username", "")))

    async def _create(
        self, client: ApiClient, resource: Resource, kind: str, spec: dict[str, Any], answer: type[Any]
    ) -> Any:
        document = {"apiVersion": f"{resource.group}/{resource.version}", "kind": kind, "spec": spec}
        body = await client.ask("create", resource, method="POST", body=msgspec.json.encode(document))
        try:
            return msgspec.json.decode(body, type=answer)
        except msgspec.MsgspecError as error:
            raise ApiError(f"cannot create {resource}: the answer cannot be read: {error}") from None
