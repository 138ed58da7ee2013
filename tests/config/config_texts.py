"""Builders of configuration texts, and the problems they raise."""

import pathlib
import textwrap

import pytest

from epp.config import EffectiveConfig, load_config
from epp.errors import ConfigError

ROOT = pathlib.Path(__file__).resolve().parents[2]

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


def config_of(body: str) -> EffectiveConfig:
    """The configuration whose top level, beside apiVersion and kind, is `body`."""
    return load_config(HEAD + textwrap.dedent(body))


def problems_of(body: str) -> list[str]:
    """All problems of such a configuration, as printed."""
    with pytest.raises(ConfigError) as raised:
        config_of(body)
    return [str(problem) for problem in raised.value.problems]


def problems_of_text(text: str) -> list[str]:
    """All problems of a whole text."""
    with pytest.raises(ConfigError) as raised:
        load_config(text)
    return [str(problem) for problem in raised.value.problems]
