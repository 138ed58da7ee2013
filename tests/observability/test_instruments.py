"""Histograms, capped labels and families."""

from hypothesis import given
from hypothesis import strategies as st

from epp.observability.instruments import OTHER, Family, Histogram, LabelCap, twin


def test_a_bound_belongs_to_its_bucket_and_what_is_above_to_the_last():
    histogram = Histogram((1.0, 2.0))

    histogram.observe([0.5, 1.0])
    histogram.observe([1.5, 2.0, 9.0])

    assert histogram.counts == [2, 2, 1]
    assert histogram.sum == 14.0


@given(st.lists(st.floats(0.0, 10.0) | st.sampled_from([1.0, 2.0, 5.0, float("inf")])))
def test_values_are_counted_together_as_they_are_one_by_one(values):
    together, alone = Histogram((1.0, 2.0, 5.0)), Histogram((1.0, 2.0, 5.0))
    together.observe(values)
    for value in values:
        alone.observe([value])

    assert together.counts == alone.counts
    assert sum(together.counts) == len(values)


def test_what_is_not_a_number_is_counted_once():
    histogram = Histogram((1.0, 2.0))

    histogram.observe([float("nan"), 1.5, float("nan")])

    assert sum(histogram.counts) == 3


def test_merging_leaves_both_as_they_were():
    left, right = Histogram((1.0,)), Histogram((1.0,))
    left.observe([0.5])
    right.observe([3.0])

    both = left.merged(right)

    assert (both.counts, both.sum) == ([1, 1], 3.5)
    assert (left.counts, right.counts) == ([1, 0], [0, 1])


@given(st.lists(st.floats(0.0, 10.0)))
def test_a_coarser_histogram_counts_as_if_it_had_observed_itself(values):
    fine, coarse = Histogram((1.0, 2.0, 5.0, 8.0)), Histogram((2.0, 8.0))
    fine.observe(values)
    coarse.observe(values)

    assert fine.coarser((2.0, 8.0)).counts == coarse.counts
    assert fine.coarser((2.0, 8.0)).sum == coarse.sum


def test_values_beyond_the_limit_are_other():
    cap = LabelCap(2)

    assert [cap.label(v) for v in ("a", "b", "c", "a", "d", "b")] == ["a", "b", OTHER, "a", OTHER, "b"]


def test_known_values_are_never_displaced():
    cap = LabelCap(2, lambda value: value in {"m1", "m2"})
    for n in range(5000):
        cap.label(f"random-{n}")

    assert [cap.label(v) for v in ("m1", "m2", "random-1", "random-2")] == ["m1", "m2", "random-1", OTHER]


def test_known_values_count_towards_the_limit():
    cap = LabelCap(2, lambda value: value == "m")

    assert [cap.label(v) for v in ("m", "a", "b")] == ["m", "a", OTHER]


def test_a_name_too_long_for_a_label_is_other_even_below_the_limit():
    cap = LabelCap(10)

    assert cap.label("x" * 256) == "x" * 256
    assert cap.label("x" * 257) == OTHER


def test_a_family_is_known_by_its_names():
    assert Family("a", "gauge", "", ("x",)).names == ("a",)
    assert Family("a", "gauge", "", ("x",), twin=twin("b", "x")).names == ("a", "b")
