"""What a gateway tells a picker, and what the picker changes: the words of the conversation, without wire."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from epp.http.types import Headers

__all__ = [
    "DESTINATION", "BodyMode", "Event", "Malformed", "Mutation", "RequestBody", "RequestHeaders",
    "RequestTrailers", "ResponseBody", "ResponseDepth", "ResponseHeaders", "ResponseTrailers",
]  # fmt: skip

DESTINATION: Final = "x-gateway-destination-endpoint"  # header and metadata key of the pick


class BodyMode(enum.IntEnum):
    """How a gateway sends bodies (Envoy's `ProcessingMode.BodySendMode`)."""

    NONE = 0
    STREAMED = 1
    BUFFERED = 2
    BUFFERED_PARTIAL = 3
    FULL_DUPLEX_STREAMED = 4
    GRPC = 5

    @classmethod
    def _missing_(cls, value: object) -> "BodyMode":
        """A mode newer than this code: what the inference extension demands is the best guess."""
        del value
        return cls.FULL_DUPLEX_STREAMED


class ResponseDepth(enum.StrEnum):
    """How much of an answer the picker wants to see."""

    NONE = "none"  # the conversation ends with the pick
    HEADERS = "headers"  # it ends with the answer's head: status and first byte
    FULL = "full"  # it ends with the answer: usage and duration too


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The head of a request; names of headers are lower-case, repeated ones joined.

    `method` and `target` are None where the gateway does not tell them. `subset` are the endpoints that it
    allows (`ip` or `ip:port`), None: all. `observing`: no answer to any message will be read.
    """

    method: str | None
    target: str | None
    headers: Mapping[str, str]
    end_of_stream: bool = False
    request_mode: BodyMode = BodyMode.FULL_DUPLEX_STREAMED
    response_mode: BodyMode = BodyMode.NONE
    subset: tuple[str, ...] | None = None
    observing: bool = False


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A piece of a request's body; `end_of_stream`: the last one, and no trailers follow."""

    data: bytes
    end_of_stream: bool = False


@dataclass(frozen=True, slots=True)
class RequestTrailers:
    """The end of a request that has trailers."""


@dataclass(frozen=True, slots=True)
class ResponseHeaders:
    """The head of the answer, its headers as those of a request, `:status` among them.

    `served` is the address that gave it, None if the gateway does not say.
    """

    headers: Mapping[str, str]
    end_of_stream: bool = False
    served: str | None = None


@dataclass(frozen=True, slots=True)
class ResponseBody:
    """A piece of the answer's body; `end_of_stream`: the last one, and no trailers follow."""

    data: bytes
    end_of_stream: bool = False


@dataclass(frozen=True, slots=True)
class ResponseTrailers:
    """The end of an answer that has trailers."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Bytes that are no message, or a message that says nothing."""

    detail: str


Event = (
    RequestHeaders
    | RequestBody
    | RequestTrailers
    | ResponseHeaders
    | ResponseBody
    | ResponseTrailers
    | Malformed
)


@dataclass(frozen=True, slots=True)
class Mutation:
    """Headers that take the place of those of the same name, and names that go."""

    replaced: Headers = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
