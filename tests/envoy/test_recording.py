"""A gateway on record: Envoy says who was asked and what came of it, and a replay decides as it did."""

import asyncio
import signal

from epp.simulate.replayed import replay_file
from tests.e2e.kit import LONG_TEXT
from tests.envoy.test_standalone import standalone  # noqa: F401  the fixture


async def stopped(serving):
    """As after SIGTERM."""
    while not serving.done():
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait({serving}, timeout=0.05)


async def asked(ask, count):
    """Requests with prefixes in common, eight at a time."""
    for start in range(0, count, 8):
        prompts = [f"{LONG_TEXT[: 700 * (number % 5)]}{number % 3}" for number in range(start, start + 8)]
        await asyncio.gather(*map(ask, prompts))


async def test_the_standalone_gateway_is_replayed(standalone, tmp_path):  # noqa: F811
    backends, gate = await standalone(3, record=str(tmp_path / "run.rec"))
    await asked(gate.ask, 24)
    await backends[0].__aexit__(None, None, None)
    await asked(gate.ask, 24)
    await stopped(gate.serving)

    told = replay_file(tmp_path / "run.rec")

    assert (told.requests, told.different, told.differences, told.complete) == (48, 0, (), True), told
    assert told.decisions >= 48


async def test_a_picker_behind_a_gateway_is_replayed(gateway, tmp_path):
    gate = await gateway(3, settings={"record": str(tmp_path / "run.rec")})
    await asked(gate.chat, 24)
    await stopped(gate.router.serving)

    told = replay_file(tmp_path / "run.rec")

    assert (told.requests, told.different, told.differences, told.complete) == (24, 0, (), True), told
