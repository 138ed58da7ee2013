"""The one failure of credentials."""

__all__ = ["AccessError"]


class AccessError(Exception):
    """Nothing says where the API server is, or what does cannot be used; one line with the remedy."""
