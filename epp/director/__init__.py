"""One request's life: parse, schedule, dispatch, observe. Synchronous; the front doors drive it.

A front door does, with the time as the last argument of each call:

    exchange = director.open(head, now)
    for _ in director.prepare(exchange, body, now): await sleep(0)   # yields each MB of hashing
    target = director.pick(exchange, now)                            # raises EppError
    … sends the request to `target` …
    director.on_response_head(exchange, status, now)                 # the answer that will be relayed
    director.on_first_byte(exchange, now)                            # first byte of its body
    director.on_end(exchange, reason, now, …)                        # exactly once, whatever happened

and, when an execution fails before a byte went to the client:

    target = director.next_after_failure(exchange, failure, now)     # None: give the client what there is
"""

from epp.director.director import Director
from epp.director.exchange import Exchange
from epp.director.types import EndReason, Failure, FailureKind, RequestHead, Target

__all__ = ["Director", "EndReason", "Exchange", "Failure", "FailureKind", "RequestHead", "Target"]
