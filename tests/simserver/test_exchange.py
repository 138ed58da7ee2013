"""Reading from ASGI servers other than the one we run on."""

from epp.simserver.exchange import Exchange


def exchange(*messages):
    queue = list(messages)

    async def receive():
        return queue.pop(0)

    scope = {
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(b"x-a", b"1"), (b"x-b", b"\xe9")],
        "extensions": {"sim": {"transport": None}},
    }
    return Exchange(scope, receive, None), queue


async def test_a_body_may_come_in_pieces():
    subject, _ = exchange(
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"c"},
    )
    await subject.read()

    assert subject.body == b"abc"


async def test_only_a_disconnect_tells_that_the_client_is_gone():
    subject, left = exchange({"type": "http.request"}, {"type": "http.disconnect"})
    await subject.gone()

    assert left == []


def test_headers_are_found_by_name():
    subject, _ = exchange()

    assert (subject.header(b"x-a"), subject.header(b"x-b"), subject.header(b"x-c")) == ("1", "é", None)
