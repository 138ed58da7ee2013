"""Which endpoint holds which stored response.

vLLM keeps responses in the memory of the process that made them. Retrieving, cancelling and continuing one
(`previous_response_id`) can therefore only succeed there.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from epp.endpoints.health import takes_requests
from epp.endpoints.types import Endpoint, Pool
from epp.errors import NoEndpointsError, ResponseNotFoundError

__all__ = ["LONGEST_RESPONSE_ID", "MAX_STORED_RESPONSES", "STORED_RESPONSE_TTL_S", "StoredResponses"]

MAX_STORED_RESPONSES: Final = 65_536  # about 20 MB
STORED_RESPONSE_TTL_S: Final = 86_400.0
LONGEST_RESPONSE_ID: Final = 256
_SHOWN: Final = 100  # characters of an id that an error repeats


@dataclass(frozen=True, slots=True)
class _Holder:
    """A process of an endpoint: another one under the same address has nothing of the first one's memory."""

    address: str
    uid: str
    added_at: float
    used_at: float


class StoredResponses:
    """Learned from answers as they pass; bounded, the response that was used longest ago goes first."""

    def __init__(
        self, max_responses: int = MAX_STORED_RESPONSES, ttl_s: float = STORED_RESPONSE_TTL_S
    ) -> None:
        self._max_responses = max_responses
        self._ttl_s = ttl_s
        self._holders: OrderedDict[str, _Holder] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def note(self, response_id: str, endpoint: Endpoint, now: float) -> None:
        """`endpoint` made the response. An id that comes again belongs to whoever used it last.

        One of more than 256 characters is not remembered: vLLM's have 37.
        """
        if len(response_id) > LONGEST_RESPONSE_ID:
            return
        self._put(response_id, _Holder(endpoint.address, endpoint.spec.uid, endpoint.added_at, now))
        while len(self._holders) > self._max_responses or self._oldest_is_over(now):
            self._holders.popitem(last=False)

    def holder(self, response_id: str | None, pool: Pool, now: float) -> Endpoint | None:
        """The only endpoint that can serve what is about the response; None when that is not known.

        Raises:
            ResponseNotFoundError: the endpoint that held it, or its process, is gone.
            NoEndpointsError: it is there, and takes no requests.
        """
        known = self._holders.get(response_id) if response_id is not None else None
        if response_id is None or known is None or now - known.used_at > self._ttl_s:
            return None
        endpoint = pool.by_address.get(known.address)
        if endpoint is None or (endpoint.spec.uid, endpoint.added_at) != (known.uid, known.added_at):
            fate = "is gone" if endpoint is None else "has restarted"
            message = f"response {response_id[:_SHOWN]!r} is lost: {known.address}, which held it, {fate}"
            raise ResponseNotFoundError(message, param="response_id")
        if not takes_requests(endpoint):
            raise NoEndpointsError(f"{known.address}, which holds the response, is not ready; see /readyz")
        self._put(response_id, _Holder(known.address, known.uid, known.added_at, now))
        return endpoint

    def _put(self, response_id: str, holder: _Holder) -> None:
        self._holders[response_id] = holder
        self._holders.move_to_end(response_id)

    def _oldest_is_over(self, now: float) -> bool:
        oldest = next(iter(self._holders.values()))
        return now - oldest.used_at > self._ttl_s
