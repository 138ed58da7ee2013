"""What one execution of a request holds while it is under way."""

import msgspec

from epp.endpoints.types import Endpoint
from epp.prefix import Occupancy, Touch

__all__ = ["Hold"]


class Hold(msgspec.Struct, eq=False):
    """What one execution holds at its endpoint: the ledger's counts and the claim in the index."""

    endpoint: Endpoint
    epoch: int
    uncached_tokens: int
    touches: list[Touch]
    occupancies: list[Occupancy]
    tokens_held: bool = True
    confirmed: bool = False
