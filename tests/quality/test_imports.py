"""`import epp` stays free of dependencies."""

import subprocess
import sys

import pytest

import epp


def test_importing_epp_loads_nothing_but_the_package():
    code = "import sys; before = set(sys.modules); import epp; print(*sorted(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = {name.partition(".")[0] for name in out.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"epp"}
    assert "epp.picker" not in out.stdout.split()


def test_epp_has_no_attribute_it_does_not_define():
    with pytest.raises(AttributeError, match="module 'epp' has no attribute 'nothing'"):
        epp.nothing  # noqa: B018
