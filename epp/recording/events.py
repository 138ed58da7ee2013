"""What is on record, in the order in which it happened.

Times are monotonic seconds as the core got them. `number` is a request's, by the order of arrival. The first
entry of a recording is its `Header`; tags and orders of fields belong to the format, so a change of either is
another `FORMAT`.
"""

from typing import Any, Final, TypeAlias

import msgspec

from epp.director.director import Limits
from epp.director.retry import RetryPolicy
from epp.director.types import EndReason, FailureKind
from epp.endpoints.health import HealthPolicy
from epp.request.types import Api
from epp.response.types import Usage

__all__ = [
    "FORMAT", "CacheLost", "Committed", "Configuration", "Configured", "Ended", "Endpoints", "Event",
    "Failed", "FirstByte", "Folded", "Header", "LookedOn", "Metrics", "Models", "Numbers", "Opened",
    "Options", "Picked", "Prepared", "ResponseHead", "Scheduled", "ScrapeFailed", "Served", "Spec",
    "Spent", "Stopped", "Stored", "Tick", "TokenRatio", "Unseen",
]  # fmt: skip

FORMAT: Final = 1


class Configuration(msgspec.Struct, frozen=True):
    """A configuration: the text that makes it, and the hash that tells whether it still makes the same."""

    source: str
    hash: str
    text: str


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the core was told beside its configuration."""

    seed: int
    retry: RetryPolicy
    limits: Limits
    health: HealthPolicy
    slow_start_s: float
    staleness_s: float
    scrape_interval_s: float


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What stands first. `created` is in seconds since the epoch."""

    format: int
    version: str
    created: float
    options: Options
    config: Configuration
    shadow: Configuration | None = None


class Folded(msgspec.Struct, frozen=True, array_like=True):
    """A chain of hashes: the first `common` are those of chain `like`, eight bytes of `rest` each other."""

    like: int
    common: int
    rest: bytes


class Numbers(msgspec.Struct, frozen=True, array_like=True):
    """What a decision came to: candidates by slot (four bytes each), then a double for each of them.

    `columns` are scorer, weight and its scores.
    """

    profile: str
    slots: bytes
    totals: bytes
    columns: tuple[tuple[str, float, bytes], ...]


class Spec(msgspec.Struct, frozen=True, array_like=True):
    """An endpoint as discovery told it."""

    scheme: str
    host: str
    port: int
    labels: dict[str, str]
    uid: str
    name: str
    namespace: str


class Opened(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A request came; `asked`: it is only a question where it would go."""

    number: int
    now: float
    request_id: str
    priority: int
    asked: bool = False


class Prepared(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """It was read. `chains`: by block size in bytes; None: no prompt is visible.

    `target` is the model that a rule sent it to in place of `model`, "" if none did.
    """

    number: int
    api: Api
    model: str | None
    stream: bool
    body_bytes: int
    max_output_tokens: int | None
    replay_safe: bool
    stored_response: str | None
    prompt_tokens: int
    text_bytes: int
    chains: tuple[tuple[int, tuple[Folded, ...]], ...] | None = None
    token_ids: bool = False
    family: int | None = None
    data_bytes: int = 0
    target: str = ""


class Picked(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """It was sent to an endpoint, or refused with an error's code; `headers` are those that were read."""

    number: int
    now: float
    headers: dict[str, str]
    subset: tuple[str, ...] | None
    endpoint: str = ""
    error: str = ""
    numbers: Numbers | None = None


class Scheduled(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The same for a question: nothing was taken."""

    number: int
    now: float
    headers: dict[str, str]
    error: str = ""
    numbers: Numbers | None = None


class LookedOn(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Somebody read one more endpoint of the decision's order."""

    number: int


class Committed(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The index notes that somebody else sends it to an endpoint."""

    number: int
    endpoint: str


class Served(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A gateway said who gave the answer."""

    number: int
    endpoint: str


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """An execution failed; `following` is the endpoint that it was sent to then, "" for none."""

    number: int
    now: float
    kind: FailureKind
    written: bool
    following: str


class ResponseHead(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The head of the answer came."""

    number: int
    now: float
    status: int


class Stored(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The answer named a stored response (its digest)."""

    number: int
    now: float
    response: str


class FirstByte(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The first byte of its body came."""

    number: int
    now: float


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """It ended."""

    number: int
    now: float
    reason: EndReason
    usage: Usage | None
    response_bytes: int


class Unseen(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Nobody will say what comes of it."""

    number: int
    now: float


class Spent(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """A gateway has made repeats out of the budget."""

    count: int
    now: float


class Endpoints(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """The whole pool."""

    now: float
    specs: tuple[Spec, ...]


class Metrics(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """A scrape: fields, by their place, that differ from the last one of this endpoint."""

    now: float
    address: str
    incarnation: int
    changed: dict[int, Any]


class ScrapeFailed(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """A scrape failed."""

    now: float
    address: str
    incarnation: int
    refused: bool


class Models(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """An endpoint listed its models: id, parent, root of each."""

    now: float
    address: str
    incarnation: int
    models: tuple[tuple[str, str | None, str | None], ...]


class CacheLost(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """An endpoint was told to forget."""

    address: str
    gpu_only: bool


class TokenRatio(msgspec.Struct, frozen=True, array_like=True, tag=25):
    """An endpoint counted the tokens of a sample text."""

    model: str
    bytes_per_token: float


class Tick(msgspec.Struct, frozen=True, array_like=True, tag=26):
    """Periodic work."""

    now: float


class Configured(msgspec.Struct, frozen=True, array_like=True, tag=27):
    """Other configurations are in effect."""

    config: Configuration
    shadow: Configuration | None


class Stopped(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """The recording ends here, and why: `stopped` with the router, `limit` of its size, or what failed."""

    why: str


Event: TypeAlias = (
    Opened | Prepared | Picked | Scheduled | LookedOn | Committed | Served | Failed | ResponseHead | Stored
    | FirstByte | Ended | Unseen | Spent | Endpoints | Metrics | ScrapeFailed | Models | CacheLost
    | TokenRatio | Tick | Configured | Stopped
)  # fmt: skip
