"""What a router learned outlives its process: when it is saved, when it is taken over, and when it is not."""

import asyncio
import logging
import os
import stat

import pytest

from epp.app import state_file, warm_start
from epp.app.state_file import STATE_FILE, read_state, write_state
from epp.app.warm_start import WarmStart
from epp.clock import ManualClock
from epp.config import StateSettings
from epp.director.saved import collect
from epp.director.saved_file import SavedFileError
from epp.endpoints.types import EndpointMetrics, ModelInfo
from epp.prefix import drain
from tests.director.core import TIERED, Pool

ADDRESS = "10.0.0.1:8000"
METRICS = EndpointMetrics(process_start=100.0, prompt_tokens_total=1000.0)


class Stage:
    """A router's core with one endpoint, and its warm start; `pool` is replaced by a restart."""

    def __init__(self, folder, clock=None, **settings):
        self.folder = folder
        self.clock = clock or ManualClock()
        self.settings = StateSettings(dir=str(folder), **settings)
        self.leads = True
        self.restart()

    def restart(self, config=TIERED):
        self.pool = Pool(n=1, config=config)
        self.warm = WarmStart(self.settings, lambda: self.pool.core, self.clock, leads=lambda: self.leads)

    def scrape(self, metrics=METRICS):
        endpoint = self.pool.endpoint(1)
        self.pool.core.upkeep.on_metrics(ADDRESS, endpoint.incarnation, metrics, self.clock.monotonic())

    def learn(self):
        """Ten blocks in each tier."""
        self.scrape()
        self.pool.serve("x" * 640)

    @property
    def blocks(self):
        slot = self.pool.endpoint(1).slot
        return [self.pool.index.blocks(view.index_view, slot) for view in self.pool.core.state.views]

    async def turns(self, warm=None):
        """Let `run` look a few times."""
        task = asyncio.create_task((warm or self.warm).run())
        try:
            for _ in range(200):
                await asyncio.sleep(0.001)
                if not self.warm._pending:
                    break
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def stage(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(warm_start, "_TICK_S", 0.001)
    monkeypatch.setattr(warm_start, "_FIRST_LOOK_S", 0.0)
    caplog.set_level(logging.INFO, "epp.state")
    return Stage(tmp_path / "state")


async def saved_and_restarted(stage, config=TIERED):
    stage.learn()
    await stage.warm.save()
    stage.restart(config)


async def test_what_was_saved_is_taken_over_once_the_endpoint_has_been_scraped(stage):
    await saved_and_restarted(stage)
    await stage.warm.start()
    assert stage.blocks == [0, 0]

    stage.scrape()
    await stage.turns()
    assert stage.blocks == [10, 10]
    report = stage.warm.report()
    assert (report.entries, report.age_s, report.loads["used"]) == (20, 0.0, 1)


async def test_a_router_that_must_start_cold_saves_and_takes_nothing_over(stage):
    await saved_and_restarted(stage)
    cold = WarmStart(stage.settings, lambda: stage.pool.core, stage.clock, takes_over=False)
    await cold.start()
    stage.scrape()
    await stage.turns(cold)
    await cold.save()

    assert stage.blocks == [0, 0]
    report = cold.report()
    assert (sum(report.loads.values()), report.saves["ok"]) == (0, 1)


async def test_start_waits_a_moment_for_endpoints_that_are_there(stage, monkeypatch):
    monkeypatch.setattr(warm_start, "_FIRST_LOOK_S", 10.0)
    await saved_and_restarted(stage)
    starting = asyncio.create_task(stage.warm.start())
    await asyncio.sleep(0.01)
    assert not starting.done()
    stage.scrape()
    await starting

    assert stage.blocks == [10, 10]


async def test_start_waits_for_no_endpoint_that_discovery_does_not_know(stage, monkeypatch):
    monkeypatch.setattr(warm_start, "_FIRST_LOOK_S", 1e9)
    await saved_and_restarted(stage)
    stage.pool.core.upkeep.sync_endpoints([], 0.0)

    async with asyncio.timeout(10):
        await stage.warm.start()


async def test_without_a_file_the_start_is_cold(stage):
    await stage.warm.start()

    assert stage.warm.report().loads == {"used": 0, "absent": 1, "refused": 0}
    assert stage.warm.report().age_s is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda s: setattr(s.clock, "now", s.clock.now + 601),
            "it is 601 s old, more than state.maxAge (600 s)",
        ),
        (lambda s: setattr(s.clock, "now", s.clock.now - 61), "it was saved 61 s from now; a clock is wrong"),
        (lambda s: damage(s.folder / STATE_FILE), "it is damaged: its checksum is wrong"),
        (lambda s: (s.folder / STATE_FILE).write_bytes(b""), "it is too short"),
        (lambda s: directory(s.folder / STATE_FILE), "Is a directory"),
    ],
)
async def test_a_file_that_cannot_be_right_is_refused_with_the_reason(stage, caplog, change, why):
    await saved_and_restarted(stage)
    change(stage)
    await stage.warm.start()
    stage.scrape()
    await stage.turns()

    assert stage.blocks == [0, 0]
    assert stage.warm.report().loads["refused"] == 1
    assert f"the saved state in {stage.folder / STATE_FILE} is not used: {why}" in caplog.messages


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def directory(path):
    path.unlink()
    path.mkdir()


async def test_a_file_of_another_way_of_hashing_is_refused(stage, caplog, monkeypatch):
    await saved_and_restarted(stage)
    monkeypatch.setattr(warm_start, "hashing_fingerprint", lambda: "another")
    await stage.warm.start()

    assert "is not used: prompts were hashed in another way" in caplog.text


async def test_a_file_of_other_block_sizes_is_refused(stage, caplog):
    await saved_and_restarted(stage, TIERED.replace("blockSize: 64", "blockSize: 128"))
    await stage.warm.start()

    assert stage.warm.report().loads["refused"] == 1
    assert (
        "the configuration has no producer 'gpu' of tier gpu with blocks of 64 bytes, "
        "nor producer 'cpu' of tier cpu with blocks of 64 bytes"
    ) in caplog.text


async def test_one_view_that_is_no_more_is_left_out(stage, caplog):
    config = TIERED.replace("blockSize: 64, autoTune", "blockSize: 128, autoTune")
    await saved_and_restarted(stage, config)
    await stage.warm.start()
    stage.scrape()
    await stage.turns()

    assert stage.blocks == [10, 0]
    assert "the configuration has no producer 'cpu' of tier cpu with blocks of 64 bytes" in caplog.text


async def test_an_engine_that_was_restarted_meanwhile_starts_empty(stage, caplog):
    await saved_and_restarted(stage)
    await stage.warm.start()
    stage.scrape(EndpointMetrics(process_start=101.0))
    await stage.turns()

    assert stage.blocks == [0, 0]
    assert f"saved index entries of {ADDRESS} are not used: its engine was restarted" in caplog.messages


async def test_lists_that_do_not_fit_are_refused_with_the_reason(stage, caplog):
    stage.learn()
    saved = drain(collect(stage.pool.core.state, stage.clock.wall()))
    held = saved.entries[0]
    held.amounts[held.runs.index(0)] = 99
    write_state(stage.folder, saved)
    stage.restart()
    await stage.warm.start()
    stage.scrape()
    await stage.turns()

    assert (
        f"saved index entries of {ADDRESS} are not used: an entry has 99 blocks of run 0" in caplog.messages
    )


async def test_runs_that_contradict_each_other_are_refused(stage):
    stage.learn()
    saved = drain(collect(stage.pool.core.state, stage.clock.wall()))
    saved.runs.ends[0] = 99
    write_state(stage.folder, saved)

    with pytest.raises(SavedFileError, match="runs have 99 blocks"):
        read_state(stage.folder)


async def test_models_are_waited_for_and_compared(stage, caplog):
    stage.learn()
    stage.pool.core.table.set_models(ADDRESS, (ModelInfo("m"),), 1.0)
    await stage.warm.save()
    stage.restart()
    await stage.warm.start()
    stage.scrape()
    await asyncio.wait({asyncio.create_task(stage.turns())}, timeout=0.02)
    assert stage.blocks == [0, 0]
    stage.pool.core.table.set_models(ADDRESS, (ModelInfo("n"),), 1.0)
    await stage.turns()

    assert f"saved index entries of {ADDRESS} are not used: it serves n and served m" in caplog.messages


async def test_models_that_are_not_told_are_not_waited_for_long(stage):
    stage.learn()
    stage.pool.core.table.set_models(ADDRESS, (ModelInfo("m"),), 1.0)
    await stage.warm.save()
    stage.restart()
    await stage.warm.start()
    stage.scrape()
    stage.clock.now += 2.1
    await stage.turns()

    assert stage.blocks == [10, 10]


async def test_nothing_is_saved_over_a_state_that_waits_for_its_endpoints(stage, caplog):
    await saved_and_restarted(stage)
    before = (stage.folder / STATE_FILE).read_bytes()
    await stage.warm.start()
    await stage.warm.save()
    assert (stage.folder / STATE_FILE).read_bytes() == before

    stage.clock.now += 31
    await stage.turns()
    await stage.warm.save()
    assert f"saved index entries are not used, not seen again: {ADDRESS}" in caplog.messages
    assert (stage.folder / STATE_FILE).read_bytes() != before


async def test_it_is_saved_each_interval(tmp_path, monkeypatch):
    monkeypatch.setattr(warm_start, "_TICK_S", 0.001)
    stage = Stage(tmp_path, interval_s=5.0)
    stage.learn()
    await stage.warm.start()
    running = asyncio.create_task(stage.warm.run())
    await asyncio.sleep(0.01)
    assert stage.warm.report().saves == {"ok": 0, "failed": 0}
    stage.clock.now += 5.0
    async with asyncio.timeout(10):
        while not stage.warm.report().saves["ok"]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    running.cancel()

    report = stage.warm.report()
    assert report.saved_at == stage.clock.wall()
    assert report.size == (tmp_path / STATE_FILE).stat().st_size


async def test_a_cache_that_was_reset_is_saved_as_such_at_once(stage):
    stage.learn()
    await stage.warm.start()
    stage.warm.save_soon()
    running = asyncio.create_task(stage.warm.run())
    async with asyncio.timeout(10):
        while not stage.warm.report().saves["ok"]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    running.cancel()


async def test_without_an_interval_it_is_saved_at_the_end_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(warm_start, "_TICK_S", 0.001)
    stage = Stage(tmp_path, interval_s=0.0)
    stage.clock.now += 1e9
    await stage.turns()
    assert stage.warm.report().saves["ok"] == 0
    await stage.warm.save()
    assert stage.warm.report().saves["ok"] == 1


async def test_a_save_that_fails_is_told_and_ends_nothing(stage, caplog):
    stage.folder.write_text("a file where the directory should be")
    await stage.warm.save()

    assert stage.warm.report().saves == {"ok": 0, "failed": 1}
    assert stage.warm.report().saved_at is None
    assert f"the state cannot be saved in {stage.folder}: File exists" in caplog.messages


async def test_whatever_goes_wrong_with_a_save_is_told_and_ends_nothing(stage, caplog, monkeypatch):
    def broken(_state, _at):
        raise RuntimeError("a defect")
        yield

    monkeypatch.setattr(warm_start, "collect", broken)
    await stage.warm.save()

    assert stage.warm.report().saves == {"ok": 0, "failed": 1}
    assert f"the state cannot be saved in {stage.folder}: RuntimeError('a defect')" in caplog.messages


async def test_a_standby_neither_saves_nor_reads_and_takes_over_when_it_leads(stage):
    stage.learn()
    await stage.warm.save()
    written = (stage.folder / STATE_FILE).read_bytes()
    stage.restart()
    stage.leads = False
    await stage.warm.start()
    stage.scrape()
    stage.clock.now += 1
    await stage.warm.save()
    await stage.turns()
    assert stage.blocks == [0, 0]
    assert (stage.folder / STATE_FILE).read_bytes() == written

    stage.leads = True
    await stage.warm.start()
    await stage.turns()
    assert stage.blocks == [10, 10]


async def test_one_that_leads_again_does_not_read_what_it_wrote_itself(stage):
    stage.learn()
    await stage.warm.start()
    await stage.warm.save()
    stage.leads = False
    await stage.turns()
    stage.leads = True
    await stage.turns()

    assert stage.warm.report().loads == {"used": 0, "absent": 1, "refused": 0}


def test_a_file_is_whole_or_the_one_before(tmp_path, monkeypatch):
    pool = Pool(n=1)
    saved = drain(collect(pool.core.state, 1.0))
    write_state(tmp_path, saved)
    before = (tmp_path / STATE_FILE).read_bytes()

    def full(_saved):
        yield b"the beginning"
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(state_file, "to_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_state(tmp_path, saved)
    assert (tmp_path / STATE_FILE).read_bytes() == before
    monkeypatch.undo()
    write_state(tmp_path, saved)
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE]


def test_it_reaches_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append(stat.S_ISDIR(os.fstat(fd).st_mode)))
    write_state(tmp_path, drain(collect(Pool(n=1).core.state, 1.0)))

    assert calls == [False, True]


def test_only_the_owner_may_read_it(tmp_path):
    write_state(tmp_path / "made", drain(collect(Pool(n=1).core.state, 1.0)))

    assert stat.S_IMODE((tmp_path / "made" / STATE_FILE).stat().st_mode) == 0o600


def test_no_step_of_a_large_save_is_long():
    """Told by what a step does: it enters no more than a few dozen entries."""
    pool = Pool(n=1, config=TIERED)
    for number in range(300):
        pool.serve(f"{number:03d}" + "x" * 637)
    steps = sum(1 for _ in collect(pool.core.state, 1.0))

    assert steps >= 2 * 300 // 64
