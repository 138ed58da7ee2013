"""Heads on their way through: from ASGI to the director and the endpoint, from the endpoint to ASGI."""

from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Final

from epp.http import BodyStream, Credentials, Headers, ResponseHead, UpstreamRequest
from epp.http.headers import find_request_id, request_headers, response_headers
from epp.proxy.asgi import Scope
from epp.request import Api, Body, InferenceRequest
from epp.response import ResponseObserver, StoredResponseReader

__all__ = [
    "BODILESS_STATUSES",
    "answer_headers",
    "is_event_stream",
    "naming_of",
    "observer_of",
    "request_id_of",
    "texts_of",
    "upstream_request",
    "value_of",
]

# Statuses without a body, whose content-length would announce one that never comes.
BODILESS_STATUSES: Final = frozenset({204, 304})
_KNOWN_HEADS: Final = 256

_name_of = itemgetter(0)


def request_id_of(headers: Headers, generate: Callable[[], bytes]) -> bytes:
    """The client's request id if it is valid, else a generated one."""
    return find_request_id(headers) or generate()


def texts_of(headers: Headers) -> dict[str, str]:
    """Headers as the director reads them; repeated ones are joined as RFC 9110 section 5.3 allows."""
    # All at once: neither names nor values hold line ends.
    names_and_values = b"\n".join(chain.from_iterable(headers)).decode("latin-1").split("\n")
    texts = dict(zip(names_and_values[::2], names_and_values[1::2], strict=False))
    return texts if len(texts) == len(headers) else _joined(headers)


def _joined(headers: Headers) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        texts[key] = f"{texts[key]}, {text}" if key in texts else text
    return texts


def upstream_request(
    scope: Scope,
    request_id: bytes,
    body: Body | BodyStream,
    *,
    trusted: bool = False,
    credentials: Credentials | None = None,
    upgrade_headers: Headers | None = None,
) -> UpstreamRequest:
    """The request as the endpoint gets it: same target and body, headers by `epp.http.headers`.

    `trusted` and `credentials` are as there; `upgrade_headers` ask for another protocol.
    """
    target: bytes = scope["raw_path"]
    if scope["query_string"]:
        target += b"?" + scope["query_string"]
    client = scope.get("client")
    headers = request_headers(
        scope["headers"],
        request_id=request_id,
        client=client[0].encode("ascii") if client else None,
        scheme=scope["scheme"].encode("ascii"),
        trusted=trusted,
        credentials=credentials,
    )
    headers += upgrade_headers or []
    return UpstreamRequest(
        scope["method"].encode("ascii"), target, headers, body, upgrade=upgrade_headers is not None
    )


def answer_headers(
    head: ResponseHead,
    *,
    request_id: bytes,
    endpoint: str | None,
    decision: str | None,
    added: tuple[tuple[str, str], ...] = (),
) -> Headers:
    """The headers of the answer to the client, `endpoint` and `decision` (None: not sent) among them.

    `added` take the place of the endpoint's headers of the same names. A `content-length` is there if the
    body has one; what else frames it, and `date` and `server`, belong to the server.
    """
    headers = response_headers(
        head.headers,
        request_id=request_id,
        endpoint=endpoint.encode("ascii") if endpoint is not None else None,
        keep_content_length=head.status not in BODILESS_STATUSES,
    )
    if added:
        own = [(name.encode("ascii"), value.encode("ascii")) for name, value in added]
        names = {name for name, _ in own}
        headers = [header for header in headers if header[0].lower() not in names] + own
    if decision is not None:
        headers.append((b"x-epp-decision", decision.encode("ascii")))
    return headers


def observer_of(head: ResponseHead) -> ResponseObserver | None:
    """Who looks for usage in the body; None where none can be."""
    if not 200 <= head.status < 300:
        return None
    return ResponseObserver(value_of(head, b"content-type"), value_of(head, b"content-encoding"))


def naming_of(head: ResponseHead, request: InferenceRequest | None) -> StoredResponseReader | None:
    """Who looks for the name of a response that the endpoint stores; None where none is made."""
    makes_one = request is not None and request.api is Api.RESPONSES and 200 <= head.status < 300
    return StoredResponseReader() if makes_one else None


def is_event_stream(head: ResponseHead) -> bool:
    """The body is server-sent events."""
    return (value_of(head, b"content-type") or "").lower().startswith("text/event-stream")


def value_of(head: ResponseHead, wanted: bytes) -> str | None:
    """The first value of a header, its name in lower case."""
    place = _place(tuple(map(_name_of, head.headers)), wanted)
    return None if place is None else head.headers[place][1].decode("latin-1")


# An endpoint sends the same names with each answer.
@lru_cache(_KNOWN_HEADS)
def _place(names: tuple[bytes, ...], wanted: bytes) -> int | None:
    return next((place for place, name in enumerate(names) if name.lower() == wanted), None)
