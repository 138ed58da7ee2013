"""The configuration that the settings name."""

import pytest

from epp.app.files import picker_config
from epp.config import Settings
from epp.errors import ConfigError

PLAIN = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n"


def scorers(config):
    return [(s.name, s.weight) for profile in config.profiles for s in profile.scorers]


def test_without_a_name_it_is_the_built_in_one():
    config = picker_config(Settings())

    assert config.source == "built-in default.yaml"
    assert scorers(config)[0] == ("active-request-scorer", 2.0)


def test_the_text_itself_may_stand_in_the_settings():
    config = picker_config(Settings(config_text=PLAIN))

    assert config.source == "configText"
    assert [name for name, _ in scorers(config)] == ["queue-scorer"]


def test_a_plain_file_is_read(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(PLAIN)

    config = picker_config(Settings(config=str(file)))

    assert config.source == str(file)
    assert [name for name, _ in scorers(config)] == ["queue-scorer"]


def test_a_config_map_is_read_as_it_is_deployed(tmp_path):
    file = tmp_path / "configmap.yaml"
    text = PLAIN.replace("\n", "\n    ")
    file.write_text(f"apiVersion: v1\nkind: ConfigMap\ndata:\n  plugins.yaml: |\n    {text}\n")

    assert [name for name, _ in scorers(picker_config(Settings(config=str(file))))] == ["queue-scorer"]


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), (b"\xff\xfe", "codec can't decode")])
def test_a_file_that_cannot_be_read_is_told_with_its_name(tmp_path, content, reason):
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigError) as raised:
        picker_config(Settings(config=str(file)))

    [problem] = raised.value.problems
    assert problem.path == "config"
    assert f"{file} cannot be read: " in problem.message
    assert reason in problem.message
