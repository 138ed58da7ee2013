"""Requests land where their prefix is held, in whichever tier."""

import asyncio

import pytest

from tests.real_vllm import pages
from tests.real_vllm.texts import english, token_ids

pytestmark = [pytest.mark.realvllm, pytest.mark.timeout(360)]

_DOCUMENT_BYTES = 6000  # about 2,300 tokens
_PROMPT_TOKENS = 3920  # 122 blocks of 32, and a half


def other(servers, address):
    """The server that is not at `address`."""
    (found,) = (server for server in servers if server.address != address)
    return found


def at(servers, address):
    """The server at `address`."""
    (found,) = (server for server in servers if server.address == address)
    return found


def test_a_shared_long_prompt_lands_where_it_is_held(router, servers):
    document = english(1, _DOCUMENT_BYTES)
    first = router.chat(document, "What was reviewed first?")
    before = {server.address: server.cached_tokens("device") for server in servers}
    later = [router.chat(document, f"What was number {number}?") for number in range(2, 8)]

    assert later == [first] * 6
    assert at(servers, first).cached_tokens("device") - before[first] >= 6 * 2000
    idle = other(servers, first)
    assert idle.cached_tokens("device") == before[idle.address]


def test_what_the_gpu_tier_has_lost_still_draws_its_request_to_the_cpu_tier_that_holds_it(router, servers):
    document = english(2, _DOCUMENT_BYTES)
    home = at(servers, router.chat(document, "What was reviewed first?"))
    overflow = [router.chat(english(number, _DOCUMENT_BYTES), "And here?") for number in range(100, 112)]
    device, host = home.cached_tokens("device"), home.cached_tokens("host")

    assert overflow.count(home.address) >= 4  # of 2,300 tokens each, where 8,192 fit
    assert router.chat(document, "What was reviewed last?") == home.address
    assert home.cached_tokens("host") - host >= 2000
    assert home.cached_tokens("device") == device


def test_what_both_tiers_have_lost_is_predicted_as_a_miss(router, servers, agreement):
    prompts = [token_ids(number, _PROMPT_TOKENS) for number in range(48)]
    homes = [router.complete(prompt) for prompt in prompts]
    agreement.begin(sent=48)
    router.complete(prompts[0])  # the oldest of 24 prompts of 3,920 tokens, where 65,536 fit
    lost = agreement.measure("out of both tiers", sent=49)
    agreement.begin(sent=49)
    again = router.complete(prompts[40])
    held = agreement.measure("in the cpu tier", sent=50)

    assert min(homes.count(server.address) for server in servers) >= 20  # near half: each overflowed
    assert (lost["gpu"].predicted, lost["cpu"].predicted) == (0, 0)
    assert (lost["gpu"].counted, lost["cpu"].counted) == (0, 0)
    assert again == homes[40]
    assert held["cpu"].counted == held["cpu"].predicted >= 3800


def computed(server):
    """Prompt tokens that the engine had to compute."""
    return pages.read(server.url, "vllm:prompt_tokens_by_source_total", source="local_compute")


async def test_a_burst_of_one_long_prompt_is_computed_once(router, servers):
    document = english(3, _DOCUMENT_BYTES)

    async def ask(client):
        answer = await client.completions.with_raw_response.create(
            model="tiny", prompt=document, max_tokens=4
        )
        return answer.headers["x-epp-endpoint"]

    before = sum(computed(server) for server in servers)
    async with router.async_client() as client:
        homes = await asyncio.gather(*(ask(client) for _ in range(8)))

    assert len(set(homes)) == 1
    assert 2000 <= sum(computed(server) for server in servers) - before <= 2000 + 8 * 400
