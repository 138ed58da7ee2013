"""The text format, byte for byte, and as the client library reads it."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from epp.observability.exposition import CONTENT_TYPE, render
from epp.observability.instruments import Family, Histogram, Twin, twin


def text(family: Family, samples) -> str:
    return b"".join(render(family, samples)).decode()


def histogram(*values: float) -> Histogram:
    filled = Histogram((0.5, 1.0))
    filled.observe(values)
    return filled


def test_the_content_type_names_the_version():
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"


def test_a_counter_with_and_without_labels():
    assert text(Family("plain", "gauge", "What it is."), [((), 3)]) == (
        "# HELP plain What it is.\n# TYPE plain gauge\nplain 3\n"
    )
    assert text(Family("c_total", "counter", "Help.", ("a", "b")), [(("x", "y"), 2), (("", "z"), 0.5)]) == (
        '# HELP c_total Help.\n# TYPE c_total counter\nc_total{a="x",b="y"} 2\nc_total{a="",b="z"} 0.5\n'
    )


def test_a_histogram_is_cumulative():
    family = Family("h", "histogram", "Help.", ("m",), (0.5, 1.0))

    assert text(family, [(("x",), histogram(0.25, 0.75, 0.75, 4.0))]) == (
        "# HELP h Help.\n"
        "# TYPE h histogram\n"
        'h_bucket{m="x",le="0.5"} 1\n'
        'h_bucket{m="x",le="1.0"} 3\n'
        'h_bucket{m="x",le="+Inf"} 4\n'
        'h_sum{m="x"} 5.75\n'
        'h_count{m="x"} 4\n'
    )


def test_a_histogram_without_labels():
    family = Family("h", "histogram", "Help.", (), (0.5, 1.0))

    assert 'h_bucket{le="0.5"} 1\n' in text(family, [((), histogram(0.1))])
    assert "h_sum 0.1\nh_count 1\n" in text(family, [((), histogram(0.1))])


def test_a_family_without_samples_says_that_it_exists():
    assert text(Family("g", "gauge", "Help.", ("a",)), []) == "# HELP g Help.\n# TYPE g gauge\n"


def test_a_twin_has_the_same_values_under_its_own_name_and_labels():
    family = Family(
        "new", "gauge", "Help.", ("name", "endpoint"), twin=Twin("old", {"name": "name", "pod": "endpoint"})
    )

    page = text(family, [(("p", "e"), 7)])

    assert 'new{name="p",endpoint="e"} 7\n' in page
    assert 'old{name="p",pod="e"} 7\n' in page
    assert page.index("# TYPE old gauge") > page.index("new{")


def test_a_twin_with_its_labels_in_another_order_has_the_right_values():
    family = Family("new", "gauge", "Help.", ("a", "b"), twin=twin("old", "b", "a"))

    assert 'old{b="2",a="1"} 7\n' in text(family, [(("1", "2"), 7)])


def test_a_twin_with_fewer_labels_sums_what_falls_together():
    family = Family("new_total", "counter", "Help.", ("m", "who"), twin=twin("old_total", "m"))

    page = text(family, [(("x", "1"), 2), (("x", "2"), 3), (("y", "1"), 5)])

    assert 'old_total{m="x"} 5\nold_total{m="y"} 5\n' in page


def test_histograms_of_a_twin_are_summed_too():
    family = Family("new", "histogram", "Help.", ("m", "who"), (0.5, 1.0), twin("old", "m"))

    page = text(family, [(("x", "1"), histogram(0.1)), (("x", "2"), histogram(0.7, 0.7))])

    assert 'old_bucket{m="x",le="0.5"} 1\nold_bucket{m="x",le="1.0"} 3\n' in page
    assert 'old_count{m="x"} 3\n' in page


def test_a_family_with_two_kinds_of_values_is_a_defect():
    family = Family("new", "histogram", "Help.", ("m", "who"), (0.5, 1.0), twin("old", "m"))

    with pytest.raises(AssertionError):
        text(family, [(("x", "1"), 1), (("x", "2"), histogram(0.1))])


@pytest.mark.parametrize(
    "value, written",
    [(3, "3"), (3.0, "3.0"), (0.1, "0.1"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN")],
)
def test_numbers(value, written):
    assert text(Family("g", "gauge", "Help."), [((), value)]).endswith(f"g {written}\n")


@pytest.mark.parametrize("name", ['quote " backslash \\ newline \n end', "Tiếng Việt", "}{=,"])
def test_label_values_survive_the_reader(name):
    page = text(Family("g", "gauge", 'Help with \\ and \n line "x".', ("model",)), [((name,), 1)])

    (family,) = text_string_to_metric_families(page)
    assert family.documentation == 'Help with \\ and \n line "x".'
    assert [(s.name, s.labels, s.value) for s in family.samples] == [("g", {"model": name}, 1.0)]


def test_half_a_character_in_a_name_does_not_break_the_page():
    page = text(Family("g", "gauge", "Help.", ("model",)), [(("a\ud800b",), 1)])

    assert page.endswith('g{model="a?b"} 1\n')


def test_large_families_come_in_slices_that_end_with_whole_lines():
    family = Family("g", "gauge", "Help.", ("n",))

    slices = list(render(family, [((str(n),), n) for n in range(1000)]))

    assert len(slices) == 6
    assert all(piece.endswith(b"\n") and piece.count(b"\n") <= 200 for piece in slices)
    assert b"".join(slices).count(b"\n") == 1002


def test_a_family_that_ends_with_a_full_slice_has_no_empty_one():
    slices = list(render(Family("g", "gauge", "Help.", ("n",)), [((str(n),), n) for n in range(198)]))

    assert [piece.count(b"\n") for piece in slices] == [200]
