"""L07 (GIE p1192, p2559; AX p2545): prompts in logs and in errors. L08 (AG p2508, p2435): credentials in debug logs."""

import asyncio

import pytest

from epp.config.settings import AccessLogSettings, LogSettings
from tests.regressions.kit import raw_client

SENTINEL = "SENTINEL-9f3"
KEY = "sk-SENTINEL-9f3-credential"
PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/x",
)


def bodies():
    message = {"role": "user", "content": SENTINEL}
    yield {"model": "m", "messages": [message], "prompt": SENTINEL, "input": SENTINEL, "cache_salt": SENTINEL}
    yield {"model": 7, "messages": [message]}
    yield {"model": SENTINEL, "messages": [message]}
    yield {"messages": SENTINEL}
    yield [SENTINEL]


@pytest.mark.parametrize("level", ["debug", "info"])
async def test_neither_is_in_a_log_a_page_or_an_error_of_ours(scripted, route, tmp_path, capfd, level):
    [endpoint] = await scripted()
    router = await route(
        endpoint,
        log=LogSettings(level=level, format="json"),
        access_log=AccessLogSettings(file=str(tmp_path / "prefix.log"), prefix=True),
    )
    await router.know("m")
    router.client.headers.update({"authorization": f"Bearer {KEY}", "cookie": SENTINEL, "x-api-key": KEY})
    own = []

    async def ask(path, end, **body):
        asking = asyncio.create_task(router.client.post(path, **body))
        while not asking.done():
            waiting = asyncio.create_task(endpoint.call())
            await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                await end(waiting.result())
            waiting.cancel()
        answer = await asking
        if "x-epp-endpoint" not in answer.headers:
            own.append(answer)

    async def answers(call):
        await call.answer()

    async def resets(call):
        call.reset()

    async def babbles(call):
        await call.send(b"this is not HTTP\r\n\r\n")
        call.close()

    for path in PATHS:
        for body in bodies():
            await ask(path, answers, json=body)
    for end in (resets, babbles):
        await ask(PATHS[0], end, json=next(bodies()))
    await ask(PATHS[0], answers, content=f'{{"messages": "{SENTINEL}')
    async with await raw_client(router) as client:
        await client.send(
            b"POST /%b HTTP/1.1\r\nauthorization: Bearer %b\r\nbad header\r\n\r\n" % (b"x", KEY.encode())
        )
        broken = await client.read_response()
    pages = [
        (await router.client.get(page)).text
        for page in ("/metrics", "/debug/decisions", "/debug/state", "/readyz")
    ]
    # A name of a model that nobody serves is the client's own word: it stands in the answer and in the access log.
    told = [answer.text for answer in own if answer.status_code != 404]
    logs = capfd.readouterr()

    assert {answer.status_code for answer in own} == {400, 404, 502}
    assert broken.status == 400
    assert SENTINEL not in "\n".join([logs.err, *told, *pages[2:], broken.body.decode()])
    for text in (*pages, (tmp_path / "prefix.log").read_text(), logs.err):
        assert KEY not in text
