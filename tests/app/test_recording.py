"""What the settings say of a recording."""

import pytest

from epp.app.files import Configurations
from epp.app.recording import Recording, recorded_options
from epp.compose import CoreOptions
from epp.config import Settings, load_config
from epp.config.builtin import builtin_config
from epp.errors import ConfigError
from epp.recording.framing import Entries

CONFIG = load_config(builtin_config(), "test")


def test_nothing_is_recorded_unless_a_file_is_named():
    recording = Recording(Settings(), Configurations(CONFIG), CoreOptions(), 1.0)
    recording.configured(Configurations(CONFIG))
    recording.stop()

    assert recording.tape is None
    assert recorded_options(Settings(), CoreOptions()).seed is None


def test_a_seed_is_drawn_where_none_is_set_and_put_on_record(tmp_path):
    settings = Settings(record=str(tmp_path / "run.rec"))
    drawn = recorded_options(settings, CoreOptions())
    assert recorded_options(settings, CoreOptions(seed=5)).seed == 5
    assert drawn.seed is not None

    Recording(settings, Configurations(CONFIG), drawn, 1.5).stop()

    with (tmp_path / "run.rec").open("rb") as stream:
        entries = Entries(stream)
        assert (list(entries), entries.complete) == ([], True)
    assert (entries.header.options.seed, entries.header.created) == (drawn.seed, 1.5)
    assert load_config(entries.header.config.text).hash == CONFIG.hash


def test_a_file_that_cannot_be_written_is_a_fault_of_the_settings(tmp_path):
    settings = Settings(record=str(tmp_path / "nowhere" / "run.rec"))

    with pytest.raises(ConfigError, match=r"record: .* cannot be opened: No such file or directory"):
        Recording(settings, Configurations(CONFIG), CoreOptions(seed=1), 1.0)


def test_a_recording_that_ends_early_is_logged(tmp_path, caplog):
    caplog.set_level("WARNING", "epp.recording")
    settings = Settings(record=str(tmp_path / "run.rec"), record_max_bytes=10)
    Recording(settings, Configurations(CONFIG), CoreOptions(seed=1), 1.0).stop()

    assert caplog.messages == ["the recording has ended early: the limit of 10 bytes was reached"]
