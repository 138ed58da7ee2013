"""Bodies of recorded responses, their transfer coding undone."""

from pathlib import Path

RECORDED = Path(__file__).parent.parent / "fixtures" / "vllm"


def body_of(name):
    """The body of a recorded chunked response."""
    rest = (RECORDED / name).read_bytes().partition(b"\r\n\r\n")[2]
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return body
        body += rest[:length]
        rest = rest[length + 2 :]
