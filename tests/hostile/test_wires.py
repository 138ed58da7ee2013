"""Requests that are broken at random: whatever they are, endpoints get whole ones and clients answers in order."""

import asyncio
import random

import pytest

from epp.proxy import ProxySettings
from tests.hostile.kit import statuses
from tests.hostile.wires import broken_wire

LIMITS = ProxySettings(head_timeout_s=0.2, body_timeout_s=0.2, keep_alive_s=0.2)
WIRES = 400
AT_ONCE = 16


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_broken_request_shakes_the_router_or_breaks_what_endpoints_get(open_front, seed):
    chosen = random.Random(seed)
    async with open_front(LIMITS, targets=10 * WIRES) as f:

        async def one(wire):
            cut = chosen.randrange(len(wire))
            pieces = [wire] if chosen.random() < 0.5 else [wire[:cut], wire[cut:]]
            answers = statuses(await f.exchange(*pieces))
            # What is refused is the last that is answered; nothing is an error of ours.
            assert set(answers) <= {100, 200, 400, 408}, wire
            assert not {400, 408} & set(answers[:-1]), wire

        for _ in range(WIRES // AT_ONCE):
            await asyncio.gather(*(one(broken_wire(chosen)) for _ in range(AT_ONCE)))

        assert f.endpoint.garbage == []
        assert len(f.endpoint.asked) > WIRES // 10
        assert f.relay.in_flight == 0
