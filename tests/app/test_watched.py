"""Values made from files, made anew when they change."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from epp.app.watched import WatchedFiles
from tests.e2e.kit import eventually


class Scene:
    """A file, who watches it, and what came of it."""

    def __init__(self, folder: Path, **options) -> None:
        self.file = folder / "value"
        self.file.write_text("1")
        self.files = WatchedFiles(**options)
        self.applied: list[int] = []
        self.first = self.files.add("number", [str(self.file)], self.load)

        async def apply(value):
            if value < 0:
                raise RuntimeError
            self.applied.append(value)

        self.files.on_change("number", apply)

    def put(self, text: str) -> None:
        """Change the file in one step."""
        new = self.file.with_name("new value")
        new.write_text(text)
        new.replace(self.file)

    def load(self) -> int:
        return int(self.file.read_text())

    @contextlib.asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.files.run())
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def counts(self) -> dict[str, int]:
        return {outcome: count for _, outcome, count in self.files.reloads()}


async def test_a_value_is_loaded_at_once_and_what_hinders_that_is_raised(tmp_path):
    assert Scene(tmp_path).first == 1
    with pytest.raises(FileNotFoundError):
        WatchedFiles().add("x", ["/gone"], lambda: Path("/gone").read_text())


async def test_a_changed_file_is_loaded_anew_and_an_unchanged_one_is_not(tmp_path, caplog):
    caplog.set_level("INFO", "epp")
    scene = Scene(tmp_path, poll_s=0.001)
    async with scene.running():
        scene.put("22")
        await eventually(lambda: scene.applied)
        await asyncio.sleep(0.01)
    assert scene.applied == [22]
    assert scene.counts() == {"ok": 1, "failed": 0}
    assert [record.message for record in caplog.records] == ["number was loaded anew"]


async def test_a_link_that_leads_elsewhere_is_a_change(tmp_path):
    for name, text in (("old", "1"), ("new", "2")):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, ns=(0, 0))
    link = tmp_path / "link"
    link.symlink_to("old")
    files = WatchedFiles(poll_s=0.001)
    seen = []

    async def apply(value):
        seen.append(value)

    files.add("x", [str(link)], link.read_text)
    files.on_change("x", apply)
    task = asyncio.create_task(files.run())
    (tmp_path / "other").symlink_to("new")
    (tmp_path / "other").replace(link)
    await eventually(lambda: seen)
    task.cancel()
    assert seen == ["2"]


async def test_a_faulty_file_leaves_the_last_good_value_until_it_is_right_again(tmp_path, caplog):
    scene = Scene(tmp_path, poll_s=0.001)
    async with scene.running():
        scene.put("two")
        await eventually(lambda: scene.counts()["failed"] > 2)
        assert dict(scene.files.faults()) == {"number": True}
        assert scene.files.states["number"].startswith("invalid literal")
        scene.file.unlink()
        await eventually(lambda: "No such file" in scene.files.states["number"])
        assert scene.applied == []
        scene.put("3")
        await eventually(lambda: set(scene.applied) == {3})  # twice, if it came between look and load
    assert dict(scene.files.faults()) == {"number": False}
    assert scene.files.states == {"number": "in use"}
    [first, second] = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert first.startswith(
        "number cannot be loaded anew, the last good one stays in effect: invalid literal"
    )
    assert "No such file" in second


async def test_a_value_that_cannot_be_applied_is_a_fault_too(tmp_path):
    scene = Scene(tmp_path, poll_s=0.001)
    async with scene.running():
        scene.put("-1")
        await eventually(lambda: scene.files.states == {"number": "RuntimeError"})


async def test_everything_is_read_on_demand_though_nothing_changed(tmp_path):
    scene = Scene(tmp_path, poll_s=3600)
    async with scene.running():
        await asyncio.sleep(0)
        scene.files.read_now()
        await eventually(lambda: scene.applied == [1])
        scene.files.read_now()
        await eventually(lambda: scene.applied == [1, 1])


async def test_what_is_not_watched_has_nobody_to_tell(tmp_path):
    scene = Scene(tmp_path, poll_s=3600)
    scene.files.on_change("another", scene.load)
    other = WatchedFiles()
    other.add("silent", [str(scene.file)], scene.load)
    task = asyncio.create_task(other.run())
    other.read_now()
    await eventually(lambda: ("silent", "ok", 1) in list(other.reloads()))
    task.cancel()
