"""What is learned from a response."""

import msgspec

__all__ = ["Usage"]


class Usage(msgspec.Struct, frozen=True):
    """Token counts as the endpoint reported them; None where it said nothing valid."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
