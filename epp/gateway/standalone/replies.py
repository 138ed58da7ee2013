"""What clients get that no endpoint has answered: Envoy's own answers become those of `epp serve`."""

from typing import Any, Final

from epp.errors import (
    EppError,
    FirstByteTimeoutError,
    PayloadTooLargeError,
    UpstreamConnectError,
    UpstreamProtocolError,
)
from epp.http.errors import error_response

__all__ = ["FAILURES", "STAND_INS", "local_replies"]

# Envoy takes an answer of 500 and above for a picker that fails, and lets the request go on. So such refusals
# come to it under a status that stands for theirs.
STAND_INS: Final = {500: 490, 503: 493}

# What Envoy's flags say of a request that got no answer, or not all of it.
FAILURES: Final = (
    (
        frozenset({"UF", "UH", "UO", "NR", "NC"}),
        UpstreamConnectError("no connection to an endpoint could be made"),
    ),
    (
        frozenset({"UC", "UR", "LR", "UPE"}),
        UpstreamProtocolError("the endpoint closed the connection without an answer"),
    ),
    (frozenset({"UT", "SI", "UMSDR"}), FirstByteTimeoutError("the endpoint did not answer in time")),
)


def local_replies(max_body_bytes: int) -> list[dict[str, Any]]:
    """Envoy's mappers, of which the first that matches counts.

    Refusals of epp's (flag UAEX) pass as they came; those under a stand-in get their own status back.
    """
    too_large = PayloadTooLargeError(f"the request body is larger than {max_body_bytes} bytes")
    failed = [_instead({"response_flag_filter": {"flags": sorted(flags)}}, e) for flags, e in FAILURES]
    return [
        *({"filter": _status_is(other), "status_code": status} for status, other in STAND_INS.items()),
        {"filter": {"response_flag_filter": {"flags": ["UAEX"]}}},
        *failed,
        _instead(_status_is(too_large.status), too_large),
    ]


def _status_is(status: int) -> dict[str, Any]:
    value = {"default_value": status, "runtime_key": f"epp.status_{status}"}
    return {"status_code_filter": {"comparison": {"value": value}}}


def _instead(found: dict[str, Any], error: EppError) -> dict[str, Any]:
    """The answer of `epp serve` in place of Envoy's."""
    status, headers, body = error_response(error)
    added = [(n.decode(), v.decode()) for n, v in headers if not n.startswith(b"content-")]
    return {
        "filter": found,
        "status_code": status,
        "headers_to_add": [{"header": {"key": name, "value": value}} for name, value in added],
        "body_format_override": {
            "content_type": "application/json",
            "text_format_source": {"inline_string": body.decode().replace("%", "%%")},
        },
    }
