"""docs/security.md says what the code does."""

import argparse
import re
from pathlib import Path

import pytest

from epp.app.front_door import _CONTROL_PATHS, _POOL_PATHS
from epp.config.settings import leaves
from epp.config.settings_load import load_settings
from epp.observability.families import FAMILIES
from epp.security import parse_key
from tests.app.test_keys import OPEN

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
TICKED = re.findall(r"`([^`\n]+)`", PAGE)
SECTIONS = {leaf.path.partition(".")[0] for leaf in leaves() if "." in leaf.path}


def test_the_example_of_settings_loads():
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

    settings, _, _ = load_settings(
        argparse.Namespace(settings="s.yaml"), {}, lambda name: example if name == "s.yaml" else "key"
    )

    assert settings.api_keys.file == "/keys/clients"
    assert settings.endpoint_key.value == "key"
    assert settings.upstream.tls.ca == "/tls/vllm-ca.crt"


def test_every_setting_that_is_named_exists():
    known = {leaf.path for leaf in leaves()}
    named = {word.partition(":")[0] for word in TICKED if word.partition(".")[0] in SECTIONS and "." in word}

    assert len(named) > 15
    assert named - known == set()


def test_every_metric_that_is_named_exists():
    named = {word.partition("{")[0] for word in TICKED if word.startswith("epp_")}

    assert named
    assert named <= {family.name for family in FAMILIES}


def test_every_form_of_a_key_that_is_shown_is_read():
    forms = re.search(r"```\n(KEY\n.*?)```", PAGE, re.DOTALL)[1].replace("HEX", "0" * 64).split()

    assert [parse_key(form).name for form in forms] == [None, "NAME", None, "NAME"]


def test_every_route_of_our_own_is_in_the_table_of_keys():
    table = PAGE.partition("| needs a key |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(/[^`]*)`", table))

    assert named >= set(OPEN) | _POOL_PATHS | (_CONTROL_PATHS - {"/docs/oauth2-redirect"})


@pytest.mark.parametrize("target", re.findall(r"\]\(([\w./-]+\.md)[#)]", PAGE))
def test_every_page_that_is_linked_exists(target):
    assert (ROOT / "docs" / target).exists()
