"""Plots: lines within the axes, also below nothing."""

import re

import pytest

from epp.simulate.html import plot


def heights(svg):
    """Of the points of each line, as shares of the axis, from the bottom."""
    lines = re.findall(r'<polyline points="([^"]*)"', svg)
    return [[round((236 - float(p.split(",")[1])) / 228, 3) for p in line.split()] for line in lines]


def test_values_above_zero_stand_on_the_axis():
    svg = plot("a <caption>", {"one & two": [(0.0, 0.0), (2.0, 5.0), (4.0, 10.0)]})

    assert heights(svg) == [[0.0, 0.5, 1.0]]
    assert "a &lt;caption&gt;" in svg
    assert "one &amp; two" in svg
    assert "stroke-dasharray" not in svg


def test_values_below_zero_have_a_line_of_nothing_above_them():
    svg = plot("gain", {"native": [(1.0, -1.0), (2.0, 3.0)], "other": [(1.0, 0.0), (2.0, 1.0)]})

    assert heights(svg) == [[0.0, 1.0], [0.25, 0.5]]
    assert '<path d="M46 179.0H632"' in svg
    assert ">-1</text>" in svg


@pytest.mark.parametrize(
    ("points", "shares"), [([(1.0, -2.0), (2.0, -1.0)], [[0.0, 0.5]]), ([(0.0, 0.0)], [[0.0]]), ([], [[]])]
)
def test_there_are_always_axes(points, shares):
    assert heights(plot("x", {"a": points})) == shares
