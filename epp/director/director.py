"""The director."""

from collections.abc import Generator

from epp.director.exchange import Exchange
from epp.director.types import EndReason, Failure, RequestHead, Target
from epp.errors import EppError
from epp.response.types import Usage

__all__ = ["Director"]


class Director:
    """See the package."""

    def open(self, head: RequestHead, now: float) -> Exchange:
        """Begin a request's life; from here on `on_end` must be called exactly once."""
        raise NotImplementedError

    def prepare(self, exchange: Exchange, body: bytes, now: float) -> Generator[None, None, None]:
        """Parse and hash `body` (as it came, maybe compressed); yields about each MB of work.

        Raises:
            BadRequestError, PayloadTooLargeError, UnsupportedEncodingError, ModelNotFoundError.
        """
        raise NotImplementedError

    def pick(self, exchange: Exchange, now: float) -> Target:
        """Schedule, raise the ledger and claim the prefix, in one step.

        Raises:
            SaturatedError, NoEndpointsError.
        """
        raise NotImplementedError

    def next_after_failure(self, exchange: Exchange, failure: Failure, now: float) -> Target | None:
        """The next execution after one that failed before a byte went to the client; None: stop."""
        raise NotImplementedError

    def on_response_head(self, exchange: Exchange, status: int, now: float) -> None:
        """The head that will be relayed came: a 2xx confirms the claim, anything else takes it back."""
        raise NotImplementedError

    def on_first_byte(self, exchange: Exchange, now: float) -> None:
        """The first byte of the body came: the prefill is done."""
        raise NotImplementedError

    def on_end(
        self,
        exchange: Exchange,
        reason: EndReason,
        now: float,
        *,
        usage: Usage | None = None,
        response_bytes: int = 0,
        error: EppError | None = None,
    ) -> None:
        """Release everything, learn from `usage`, tell the observers. Later calls do nothing."""
        raise NotImplementedError
