"""JSON as vLLM writes it: without blanks, text as it is."""

import json

__all__ = ["compact_json"]


def compact_json(data: object) -> bytes:
    """Encode `data`; lone surrogates, which JSON escapes can smuggle in, become question marks."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
