"""T1: one shared system prompt sent every request to one server; and spreading it must not tear conversations apart.

The endpoints answer the oldest request whenever as many as clients ask at a time wait for them. The same on simulated
servers with a clock, under both shipped configurations: bench/hot_prefix.py.
"""

import asyncio
import random
from collections import Counter, deque

from bench.hot_prefix import words

SYSTEM = words(random.Random(1), 5800)
REQUESTS, AT_ONCE = 400, 32
CONVERSATIONS, TURNS, TALKING = 16, 10, 4
CHAT = "/v1/chat/completions"


async def answer_oldest(endpoints, requests, at_once):
    """Answer so many requests, one by one, always with `at_once` of them open."""
    open_calls = deque()
    for answered in range(requests):
        while len(open_calls) < min(at_once, requests - answered):
            for endpoint in endpoints:
                while endpoint.waiting:
                    open_calls.append(await endpoint.call())
            await asyncio.sleep(0)
        await open_calls.popleft().answer(b'{"choices":[{"message":{"role":"assistant","content":"Yes."}}]}')


async def test_no_endpoint_gets_more_than_35_percent_of_a_hot_prefix(scripted, route):
    endpoints = await scripted(4)
    router = await route(*endpoints)
    await router.know("m")
    rng, slots = random.Random(2), asyncio.Semaphore(AT_ONCE)

    async def ask(question):
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        async with slots:
            return (await router.client.post(CHAT, json={"messages": messages})).headers["x-epp-endpoint"]

    answering = asyncio.create_task(answer_oldest(endpoints, REQUESTS, AT_ONCE))
    went = Counter(await asyncio.gather(*[ask(words(rng, 300)) for _ in range(REQUESTS)]))
    await answering

    assert went.total() == REQUESTS
    assert max(went.values()) / REQUESTS <= 0.35


async def test_conversations_with_one_request_an_endpoint_in_flight_stay_where_they_are(scripted, route):
    endpoints = await scripted(4)
    router = await route(*endpoints)
    await router.know("m")
    slots, stayed = asyncio.Semaphore(TALKING), Counter()

    async def talk(number):
        rng, messages, before = random.Random(number), [], None
        for _ in range(TURNS):
            messages.append({"role": "user", "content": words(rng, 1700)})
            async with slots:
                answer = await router.client.post(CHAT, json={"messages": messages})
            messages.append(answer.json()["choices"][0]["message"])
            endpoint = answer.headers["x-epp-endpoint"]
            if before is not None:
                stayed[before == endpoint] += 1
            before = endpoint

    answering = asyncio.create_task(answer_oldest(endpoints, CONVERSATIONS * TURNS, TALKING))
    await asyncio.gather(*[talk(number) for number in range(CONVERSATIONS)])
    await answering

    assert stayed.total() == CONVERSATIONS * (TURNS - 1)
    assert stayed[True] / stayed.total() >= 0.97
