"""What an execution's outcome means for the retry contract: pure rules."""

from typing import Final

from epp.director import EndReason, Failure, FailureKind
from epp.errors import (
    EppError,
    FirstByteTimeoutError,
    OverloadedError,
    UpstreamConnectError,
    UpstreamProtocolError,
)
from epp.http import ErrorKind, UpstreamFailure
from epp.http.errors import error_response
from epp.response import is_engine_down

__all__ = [
    "CUT_EVENT", "RETRYABLE_STATUSES", "error_for", "failure_of_exchange", "failure_of_status",
    "reason_of_cut",
]  # fmt: skip

# Answers whose body is looked at before anything goes to the client.
RETRYABLE_STATUSES: Final = frozenset({500, 503})

# Sent before a broken event stream is cut, if the operator wants it. The empty line ends an event cut in two.
CUT_EVENT: Final = (
    b"\n\nevent: error\ndata: %s\n\n"
    % (error_response(UpstreamProtocolError("the endpoint broke off its answer"))[2])
)

_TIMEOUTS: Final = frozenset({ErrorKind.IDLE_TIMEOUT, ErrorKind.FIRST_BYTE_TIMEOUT, ErrorKind.TOTAL_TIMEOUT})

_KINDS: Final = {
    ErrorKind.CONNECT: FailureKind.CONNECT,
    ErrorKind.CONNECT_TIMEOUT: FailureKind.CONNECT,
    ErrorKind.CLOSED_REUSED: FailureKind.CLOSED_REUSED,
    ErrorKind.FIRST_BYTE_TIMEOUT: FailureKind.FIRST_BYTE_TIMEOUT,
    ErrorKind.TOTAL_TIMEOUT: FailureKind.FIRST_BYTE_TIMEOUT,
}


def failure_of_exchange(failure: UpstreamFailure) -> Failure | OverloadedError:
    """What failed before the client got a byte, for the director; an error if a limit of ours did."""
    if failure.kind is ErrorKind.POOL_EXHAUSTED:
        return OverloadedError("no connection to the endpoints is free; try again")
    return Failure(_KINDS.get(failure.kind, FailureKind.BROKEN), failure.detail, failure.written)


def failure_of_status(status: int, body: bytes, *, complete: bool) -> Failure | None:
    """Whether a 500 or 503 asks for another endpoint; None: it is an answer like any other.

    `complete`: `body` is the whole body; a 500 that broke off says nothing but that the endpoint is broken.
    """
    if status == 503:
        return Failure(FailureKind.UNAVAILABLE, "503")
    if not complete:
        return Failure(FailureKind.BROKEN, f"{status} broke off")
    return Failure(FailureKind.ENGINE_DOWN, str(status)) if is_engine_down(status, body) else None


def error_for(failure: Failure) -> EppError:
    """What the client is told when there is no answer to pass on and no endpoint left to try."""
    if failure.kind is FailureKind.CONNECT:
        return UpstreamConnectError("no connection to an endpoint could be made")
    if failure.kind is FailureKind.FIRST_BYTE_TIMEOUT:
        return FirstByteTimeoutError("the endpoint did not answer in time")
    return UpstreamProtocolError("the endpoint closed the connection without an answer")


def reason_of_cut(failure: UpstreamFailure) -> EndReason:
    """Why an answer that had begun broke off."""
    return EndReason.TIMEOUT if failure.kind in _TIMEOUTS else EndReason.UPSTREAM_ABORTED
