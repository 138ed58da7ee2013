"""What routing reads of a multipart form (RFC 7578) from its beginning."""

import re
from typing import Final

__all__ = ["model_in_form"]

_BOUNDARY: Final = re.compile(r'\bboundary=(?:"([^"]+)"|([^\s;]+))', re.IGNORECASE)
# Anchored at the beginning of a line: of a line that repeats itself every repetition would be a beginning.
_NAME: Final = re.compile(
    rb'\r\ncontent-disposition:[^\r\n]*;[ \t]*name="?model"?[ \t]*(?:;|\r\n|$)', re.IGNORECASE
)


def model_in_form(content_type: str, beginning: bytes) -> str | None:
    """The value of the field `model`, if it stands wholly within `beginning`; None otherwise."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None or not content_type.lower().startswith("multipart/form-data"):
        return None
    mark = b"--" + (boundary.group(1) or boundary.group(2)).encode("latin-1")
    # What stands behind the last boundary has not come to its end.
    for part in (b"\r\n" + beginning).split(b"\r\n" + mark)[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        if _NAME.search(head):
            return value.decode(errors="replace") or None
    return None
