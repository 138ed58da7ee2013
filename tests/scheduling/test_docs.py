"""docs/scheduling.md against the catalog."""

import re
from pathlib import Path

import pytest

from epp.config.catalog import default_registry
from epp.scheduling.producers.approx_prefix_cache import PrefixIndexParameters
from epp.scheduling.registry import params_of
from tests.config.reference_tables import all_params

PAGE = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text(encoding="utf-8")
TYPES = default_registry().types()


def section(plugin_type):
    """What stands under the type's heading."""
    found = re.search(rf"^### `{re.escape(plugin_type)}`\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, f"no section for {plugin_type}"
    return found[1]


def rows(text):
    """Parameter tables of a section: path → default as written."""
    return dict(re.findall(r"^\| `([\w.\[\]]+)` \| ([^|]*) \|", text, re.MULTILINE))


def written(param):
    default = param.default
    if param.required:
        return "required"
    if default is None or default == ():
        return "none"
    return str(default).lower() if isinstance(default, bool) else f"{default}"


@pytest.mark.parametrize("plugin", TYPES, ids=lambda t: t.type)
def test_every_parameter_stands_in_its_types_section_with_its_default(plugin):
    expected = dict(all_params(plugin.parameters))
    if plugin.type == "prefix-cache-scorer":
        assert "every parameter of [`approx-prefix-cache-producer`]" in section(plugin.type)
        expected = {k: v for k, v in expected.items() if k not in params_of(PrefixIndexParameters)}

    documented = rows(section(plugin.type))

    assert set(documented) == set(expected)
    for key, param in expected.items():
        as_number = isinstance(param.default, float) and not param.required
        assert float(documented[key]) == param.default if as_number else documented[key] == written(param)


def test_no_section_is_about_a_type_that_does_not_exist():
    headings = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)

    assert sorted(headings) == [t.type for t in TYPES]


def test_choices_are_named():
    for plugin in TYPES:
        for _, p in all_params(plugin.parameters):
            assert all(f"`{choice}`" in PAGE for choice in p.choices)
