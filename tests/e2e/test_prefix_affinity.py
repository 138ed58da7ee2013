"""Requests go where their prefix is, in either tier, and what the router predicts is what the servers do."""

import asyncio

import httpx
import pytest

from epp.cli import main
from epp.cli.tour import Tour
from tests.e2e.kit import LONG_TEXT, PATIENCE_S, chat, free_port

VIETNAMESE = (
    "Ủy ban đã họp vào thứ Ba để xem xét các số liệu trong quý và thảo luận về kế hoạch của năm tới. " * 80
)
CHINESE = "委员会于星期二开会审查季度数据,并讨论明年的计划。北部地区的收入增长最快,运输成本仍然最高。" * 80


@pytest.fixture
async def demo(fleet, route):
    """What `epp demo` starts: four servers whose GPU tier is easily filled."""
    servers = await fleet(4, gpu_blocks=512, cpu_blocks=4096, report_cpu_tier=True)
    router = await route(*servers)
    await router.know("sim/llama-8b")
    return router


async def test_the_tour_shows_what_both_tiers_do(demo):
    def walk():
        with httpx.Client(base_url=demo.url, trust_env=False, timeout=PATIENCE_S) as client:
            return list(Tour(client).steps())

    first, repeat, *fill, last = await asyncio.to_thread(walk)

    assert (first.predicted_gpu, first.predicted_cpu, first.cached) == (0, 0, 0)
    assert repeat.endpoint == first.endpoint
    assert repeat.predicted_gpu > 0.9 * repeat.prompt
    assert repeat.predicted_cpu == 0
    assert repeat.cached > 0.9 * repeat.prompt
    assert {step.cached for step in fill} == {0}
    assert last.endpoint == first.endpoint
    assert last.predicted_gpu == 0
    assert last.predicted_cpu > 0.9 * last.prompt
    assert last.cached > 0.9 * last.prompt


async def test_the_tour_command_prints_every_step_and_what_it_means(demo, capsys):
    status = await asyncio.to_thread(main, ["tour", "--url", demo.url, "--fill", "2"])
    lines = capsys.readouterr().out.splitlines()

    assert status == 0
    assert lines[0].split() == ["step", "endpoint", "prompt", "predicted", "cached"]
    assert [line[:7] for line in lines[1:6]] == ["1 a lon", "2 the s", "3 fill:", "3 fill:", "4 the f"]
    assert lines[-1].startswith("The repeat found ")
    assert "After 2 other prompts the GPU tier held " in lines[-1]


async def test_the_tour_of_no_router_is_a_message_and_1(capsys):
    url = f"http://127.0.0.1:{free_port()}"

    status = await asyncio.to_thread(main, ["tour", "--url", url])

    assert status == 1
    assert f"epp tour: {url}: " in capsys.readouterr().err


async def test_the_first_of_many_sends_all_that_share_its_prefix_to_one_server(demo):
    first = await demo.chat(LONG_TEXT)
    others = [await demo.chat(f"{LONG_TEXT} Question {n}?") for n in range(6)]

    assert {answer.headers["x-epp-endpoint"] for answer in others} == {first.headers["x-epp-endpoint"]}


async def test_prompts_that_share_nothing_are_spread(demo):
    answers = [await demo.chat(f"{n} {LONG_TEXT}") for n in range(8)]
    addresses = [answer.headers["x-epp-endpoint"] for answer in answers]

    counts = [addresses.count(address) for address in set(addresses)]
    assert len(counts) == 4
    assert max(counts) <= 3  # a scrape may show one of them busy for a moment


async def test_a_salt_separates_what_is_otherwise_the_same(demo):
    for salt in ("tenant-a", "tenant-b", "tenant-a"):
        await demo.chat(LONG_TEXT, cache_salt=salt)
    decisions = await demo.decisions(3)

    assert [decision["predicted_gpu"] > 0 for decision in decisions] == [False, False, True]
    assert [decision["cached_tokens"] > 0 for decision in decisions] == [False, False, True]


def gap(decision):
    """Predicted hit against the measured one, as a share of the prompt."""
    predicted = decision["predicted_gpu"] + decision["predicted_cpu"]
    return abs(predicted - decision["cached_tokens"]) / decision["prompt_tokens"]


@pytest.mark.parametrize("text", [VIETNAMESE, CHINESE], ids=["vietnamese", "chinese"])
async def test_before_learning_there_is_a_prediction_gap_and_learning_closes_it(fleet, route, text):
    """While the first answer is on its way, nothing is known of the tokenizer: four bytes a token are assumed."""
    [server] = await fleet(time_scale=2.0)
    server.core.faults.add("status=404", times=None, path="/tokenize")
    router = await route(server)
    await router.know("sim/llama-8b")

    stream = chat(text, stream=True, max_tokens=2000)
    async with router.client.stream("POST", "/v1/chat/completions", json=stream) as answer:
        prefilled = answer.aiter_bytes()
        await anext(prefilled)
        await router.chat(text)
        [unlearned] = await router.decisions(1)
    await router.chat(text)
    learned = (await router.decisions(3))[-1]

    assert gap(unlearned) > 0.3
    assert gap(learned) < 0.03


async def test_the_tokenizer_of_the_server_is_asked_before_the_first_request(fleet, route):
    [server] = await fleet()
    router = await route(server)
    await router.know("sim/llama-8b")

    ratio = await router.sample("epp_bytes_per_token", model_name="sim/llama-8b")

    assert 2.5 < ratio < 3.5
