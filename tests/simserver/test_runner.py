"""The runner between the engine and the metrics page."""

import asyncio

from epp.engine import Engine, EngineRequest
from epp.simserver import SimSettings
from epp.simserver.runner import EngineRunner
from tests.simserver.kit import eventually


class Scene:
    """An engine in real time, and the gauges that each step made visible."""

    def __init__(self) -> None:
        settings = SimSettings()
        self.told = []
        self.engine = Engine(settings.engine_config(), settings.latency)
        self.runner = EngineRunner(
            self.engine, 1.0, lambda _outputs, _tokens, gauges: self.told.append(gauges)
        )

    def submit(self, name: str):
        return self.runner.submit([EngineRequest(name, 64, 3)])

    async def __aenter__(self):
        self.running = asyncio.create_task(self.runner.run())
        return self

    async def __aexit__(self, *_exc):
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


async def test_a_request_that_arrives_during_a_step_is_not_counted_as_waiting():
    async with Scene() as scene:
        scene.submit("first")
        await asyncio.sleep(0)  # its first step is being computed
        scene.submit("second")
        await eventually(lambda: len(scene.told) > 1)

    assert [(g.running, g.waiting) for g in scene.told[:2]] == [(1, 0), (2, 0)]


async def test_a_last_request_that_is_aborted_during_a_step_leaves_an_idle_page():
    async with Scene() as scene:
        submission = scene.submit("first")
        await asyncio.sleep(0)
        scene.runner.abort(submission)
        await eventually(lambda: len(scene.told) > 1)

    assert [(g.running, g.waiting, g.kv_usage) for g in scene.told] == [(0, 0, 0)] * 2
