"""The limit of open files."""

import resource

import pytest

from epp.app.open_files import open_files_limit, raise_open_files_limit

NOFILE = resource.RLIMIT_NOFILE


@pytest.fixture
def limits(monkeypatch):
    """Stands in for the kernel; starts with the usual soft limit of a shell."""
    state = {"now": (1024, 524_288), "refuses": False}

    def setrlimit(which, wanted):
        assert which == NOFILE
        if state["refuses"]:
            raise OSError(1, "Operation not permitted")
        state["now"] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _which: state["now"])
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    return state


def test_the_soft_limit_becomes_the_hard_one(limits):
    raise_open_files_limit()

    assert limits["now"] == (524_288, 524_288)
    assert open_files_limit() == 524_288


def test_without_a_hard_limit_it_is_what_the_kernel_allows_a_process(limits):
    limits["now"] = (1024, resource.RLIM_INFINITY)
    raise_open_files_limit()

    assert limits["now"] == (1_048_576, resource.RLIM_INFINITY)


@pytest.mark.parametrize("soft", [524_288, resource.RLIM_INFINITY])
def test_a_limit_that_is_high_enough_stays(limits, soft):
    limits["now"], limits["refuses"] = (soft, 524_288), True
    raise_open_files_limit()

    assert limits["now"] == (soft, 524_288)


def test_where_it_cannot_be_raised_the_start_goes_on(limits):
    limits["refuses"] = True
    raise_open_files_limit()

    assert open_files_limit() == 1024
