"""When a configuration file is applied, and what is said when it cannot be."""

import asyncio
import contextlib
import logging

import pytest

from epp.app.files import read_configurations
from epp.app.reload import ConfigReload
from epp.config import Settings
from epp.discovery.discovery import SourceError
from epp.errors import ConfigError, ConfigProblem
from tests.discovery.kit import Pauses

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
QUEUE, RUNNING = (
    f"{HEAD}plugins: [{{type: {t}}}]\n" for t in ("queue-scorer", "running-requests-size-scorer")
)
FAULTY = f"{HEAD}plugins: [{{type: queue}}, {{name: x}}]\n"


class Stage:
    """A reload over two files; `applied` are the types of the first plugin, live and shadow."""

    def __init__(self, folder, *, shadow=True, interval_s=1.0):
        self.live, self.shadow = folder / "live.yaml", folder / "shadow.yaml"
        self.live.write_text(QUEUE)
        self.shadow.write_text(QUEUE)
        settings = Settings(
            config=str(self.live),
            shadow_config=str(self.shadow) if shadow else None,
            config_interval_s=interval_s,
        )
        self.pauses, self.applied, self.error = Pauses(), [], None
        self.reload = ConfigReload(settings, read_configurations(settings), self.apply, self.pauses)

    async def apply(self, wanted):
        if self.error is not None:
            raise self.error
        self.applied.append(tuple(c and c.plugins[0].type for c in (wanted.live, wanted.shadow)))

    async def put(self, path, text):
        """Replace a file, and let the loop look."""
        (path.parent / "next").write_text(text)
        (path.parent / "next").rename(path)
        await self.pauses.next()

    def problems(self):
        return dict(self.reload.report().problems)

    def results(self):
        return dict(self.reload.report().results)


@contextlib.asynccontextmanager
async def running(stage):
    task = asyncio.create_task(stage.reload.run())
    try:
        await stage.pauses.reached()
        yield stage
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_is_in_effect_already_is_not_applied(tmp_path):
    async with running(Stage(tmp_path)) as stage:
        await stage.put(stage.live, QUEUE)

        assert stage.applied == []
        assert stage.results() == {"success": 0, "failure": 0}


async def test_g10_a_changed_file_is_applied_and_counted(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    async with running(Stage(tmp_path)) as stage:
        await stage.put(stage.live, RUNNING)
        await stage.put(stage.shadow, RUNNING)

        assert stage.applied == [
            ("running-requests-size-scorer", "queue-scorer"),
            ("running-requests-size-scorer", "running-requests-size-scorer"),
        ]
        assert stage.results() == {"success": 2, "failure": 0}
        assert [(r.message, r.role) for r in caplog.records if r.name == "epp.config"] == [
            ("configuration reloaded", "live"),
            ("configuration reloaded", "shadow"),
        ]


async def test_a_file_that_changed_before_the_first_look_is_applied_by_it(tmp_path):
    stage = Stage(tmp_path)
    stage.live.write_text(RUNNING)
    async with running(stage):
        assert stage.applied == [("running-requests-size-scorer", "queue-scorer")]


async def test_comments_alone_are_applied_too_since_lines_are_shown(tmp_path):
    async with running(Stage(tmp_path)) as stage:
        await stage.put(stage.live, f"# A comment.\n{QUEUE}")

        assert stage.results() == {"success": 1, "failure": 0}


async def test_g10_invalid_then_valid_then_deleted_keeps_the_last_good(tmp_path, caplog):
    async with running(Stage(tmp_path)) as stage:
        await stage.put(stage.live, FAULTY)
        await stage.pauses.next()
        assert stage.applied == []
        assert stage.results() == {"success": 0, "failure": 1}
        assert stage.problems()[str(stage.live)].startswith(
            "plugins[0].type (line 3): plugin type 'queue' is not found"
        )
        assert "plugins[1].type (line 3)" in stage.problems()[str(stage.live)]
        await stage.put(stage.live, RUNNING)
        assert stage.problems() == {}
        assert stage.results() == {"success": 1, "failure": 1}
        stage.live.unlink()
        for _ in range(3):
            await stage.pauses.next()

        assert len(stage.applied) == 1
        assert stage.results() == {"success": 1, "failure": 2}
        assert stage.problems() == {
            str(stage.live): f"{stage.live} cannot be read: No such file or directory"
        }
        errors = [r.message for r in caplog.records if r.levelname == "ERROR"]
        assert len(errors) == 2
        assert all(e.startswith("configuration not reloaded, the last good one stays: ") for e in errors)


async def test_the_last_good_content_again_ends_the_fault(tmp_path):
    async with running(Stage(tmp_path)) as stage:
        await stage.put(stage.live, FAULTY)
        await stage.put(stage.live, QUEUE)

        assert stage.problems() == {}
        assert stage.results() == {"success": 1, "failure": 1}


async def test_a_fault_in_one_file_does_not_keep_the_other_back(tmp_path):
    async with running(Stage(tmp_path)) as stage:
        await stage.put(stage.live, FAULTY)
        await stage.put(stage.shadow, RUNNING)

        assert stage.applied == [("queue-scorer", "running-requests-size-scorer")]
        assert list(stage.problems()) == [str(stage.live)]


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ConfigError([ConfigProblem("plugins[0]", "cannot be built")]), "plugins[0]: cannot be built"),
        (SourceError("file e.yaml: is gone"), "file e.yaml: is gone"),
        (KeyError("slot"), "KeyError('slot')"),
    ],
)
async def test_what_cannot_be_put_in_effect_is_a_failure(tmp_path, error, problem):
    async with running(Stage(tmp_path, shadow=False)) as stage:
        stage.error = error
        await stage.put(stage.live, RUNNING)

        assert stage.problems() == {str(stage.live): problem}
        assert stage.results() == {"success": 0, "failure": 1}


async def test_a_file_that_names_missing_endpoints_is_tried_again(tmp_path):
    async with running(Stage(tmp_path, shadow=False)) as stage:
        stage.error = SourceError("file e.yaml: is gone")
        await stage.put(stage.live, RUNNING)
        await stage.pauses.next()
        stage.error = None
        await stage.pauses.next()

        assert stage.applied == [("running-requests-size-scorer", None)]
        assert stage.problems() == {}
        assert stage.results() == {"success": 1, "failure": 1}


async def test_content_that_is_no_text_is_a_failure(tmp_path):
    async with running(Stage(tmp_path, shadow=False)) as stage:
        stage.live.write_bytes(b"\xff\xfe")
        await stage.pauses.next(rung=True)

        assert stage.problems() == {str(stage.live): "document: is not UTF-8; save it as UTF-8"}


@pytest.mark.parametrize(("interval_s", "waited"), [(1.0, 1.0), (0.0, None)])
async def test_the_interval_is_that_of_the_settings_and_none_waits_for_a_signal(tmp_path, interval_s, waited):
    async with running(Stage(tmp_path, interval_s=interval_s)) as stage:
        assert stage.pauses.waited == [waited]


async def test_a_signal_applies_at_once_what_was_written_in_place(tmp_path):
    async with running(Stage(tmp_path)) as stage:
        stage.live.write_text(RUNNING)
        await stage.pauses.next(rung=True)

        assert stage.applied == [("running-requests-size-scorer", "queue-scorer")]


@pytest.mark.parametrize("config", [None, "/dev/null"])
def test_what_is_no_file_is_not_followed(config):
    reload = ConfigReload(Settings(config=config), None, None, None)

    assert not reload.follows
    assert reload.report().problems == {}
