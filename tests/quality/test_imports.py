"""`import epp` stays free of dependencies, and two runtimes share no state at module level."""

import subprocess
import sys

import pytest


def test_importing_epp_loads_nothing_but_the_package():
    code = "import sys; before = set(sys.modules); import epp; print(*sorted(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = {name.partition(".")[0] for name in out.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"epp"}
    assert "epp.picker" not in out.stdout.split()


def test_epp_has_no_attribute_it_does_not_define():
    import epp

    with pytest.raises(AttributeError, match=r"^module 'epp' has no attribute 'nothing'$"):
        epp.nothing  # noqa: B018
