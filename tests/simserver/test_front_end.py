"""The way of a request to the engine's queue takes the time that a real server's front end takes."""

from types import SimpleNamespace

import pytest

from epp.simserver import inference
from epp.simserver.settings import SimSettings


@pytest.mark.parametrize(
    ("api_s", "api_token_s", "read_s", "waited"),
    [
        (
            5.0,
            0.5,
            1.0,
            [0.12],
        ),  # 5 s and 4 tokens of 0.5 s, 1 s of which it took to read it, 50 times faster
        (5.0, 0.0, 6.0, []),
        (0.0, 0.0, 1.0, []),
    ],
)
async def test_what_reading_it_has_left_of_that_time_is_waited(
    monkeypatch, api_s, api_token_s, read_s, waited
):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr(inference, "asyncio", SimpleNamespace(sleep=sleep))
    settings = SimSettings(api_s=api_s, api_token_s=api_token_s, time_scale=50.0)
    core = SimpleNamespace(settings=settings, runner=SimpleNamespace(now=lambda: 100.0 + read_s))

    request = SimpleNamespace(prompts=[[1, 2, 3], [4]])
    await inference.InferenceService(core)._on_the_way(request, 100.0)

    assert waits == waited
