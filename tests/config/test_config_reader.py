"""Nodes as typed values, and the problem where they do not fit."""

import pytest

from epp.config.document import parse
from epp.config.reader import Reader, closest, unknown_word_remedy


def node_of(text):
    (document,) = parse(f"k: {text}\n").documents
    return document.get("k")


def read(kind, text):
    """The value that a reader's method gives, and the problems."""
    reader = Reader()
    return getattr(reader, kind)(node_of(text), "k"), [str(problem) for problem in reader.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [("on", "on"), ("0123", "0123"), ("1e3", "1e3"), ("true", "true"), ("'a b'", "a b"), ("''", "")],
)
def test_a_string_is_what_was_written(text, value):
    assert read("string", text) == (value, [])


def test_a_string_that_is_absent_is_none():
    assert Reader().string(None, "k") is None


@pytest.mark.parametrize(("text", "what"), [("[a]", "a list"), ("{a: b}", "a mapping")])
def test_a_string_is_no_list_and_no_mapping(text, what):
    assert read("string", text) == (None, [f"k (line 1): must be a string, not {what}"])


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), ("TRUE", True)])
def test_a_boolean_is_a_bare_true_or_false(text, value):
    assert read("boolean", text) == (value, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"false"', "must be true or false, not the string 'false'; write false without quotes"),
        ("on", "must be true or false, not on; write true or false"),
        ("No", "must be true or false, not No; write true or false"),
        ("1", "must be true or false, not 1"),
        ("[true]", "must be true or false, not a list"),
    ],
)
def test_a_boolean_is_nothing_else(text, problem):
    assert read("boolean", text) == (None, [f"k (line 1): {problem}"])


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("41000", 41000), ("-5", -5), ("+7", 7)])
def test_an_integer_is_bare_decimal_digits(text, value):
    assert read("integer", text) == (value, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("asdf", "must be a whole number, not asdf"),
        ("'7'", "must be a whole number, not the string '7'; write 7 without quotes"),
        ("'x'", "must be a whole number, not the string 'x'"),
        (
            "041000",
            "must be a whole number, not 041000; write 41000 (a leading zero means octal to some readers)",
        ),
        ("00", "must be a whole number, not 00; write 0 (a leading zero means octal to some readers)"),
        ("1e6", "must be a whole number, not 1e6; write 1000000"),
        ("2.0", "must be a whole number, not 2.0; write 2"),
        ("2.5", "must be a whole number, not 2.5"),
        ("41_000", "must be a whole number, not 41_000"),
        ("0x10", "must be a whole number, not 0x10"),
        ("1:30", "must be a whole number, not 1:30"),
        ("1234567890123456789", "must have at most 18 digits, not 1234567890123456789"),
        ("1e30", "must be a whole number, not 1e30"),
        ("[1]", "must be a whole number, not a list"),
    ],
)
def test_an_integer_is_nothing_else_and_the_remedy_says_what_was_meant(text, problem):
    assert read("integer", text) == (None, [f"k (line 1): {problem}"])


@pytest.mark.parametrize(
    ("text", "value"), [("2", 2.0), ("2.0", 2.0), (".5", 0.5), ("1e1", 10.0), ("-1", -1.0), ("2.", 2.0)]
)
def test_a_number_is_with_or_without_a_fraction(text, value):
    assert read("number", text) == (value, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"2"', "must be a finite number, not the string '2'; write 2 without quotes"),
        ("'x'", "must be a finite number, not the string 'x'"),
        (".nan", "must be a finite number, not .nan"),
        (".inf", "must be a finite number, not .inf"),
        ("1e999", "must be a finite number, not 1e999"),
        ("nan", "must be a finite number, not nan"),
        ("[2]", "must be a finite number, not a list"),
    ],
)
def test_a_number_is_finite_and_bare(text, problem):
    assert read("number", text) == (None, [f"k (line 1): {problem}"])


def test_a_list_gives_its_elements_with_their_paths():
    items = Reader().items(node_of("[a, b]"), "k")

    assert [(path, item.text) for path, item in items] == [("k[0]", "a"), ("k[1]", "b")]


def test_a_list_that_is_absent_is_empty():
    assert Reader().items(None, "k") == []


def test_a_list_is_no_scalar():
    assert read("items", "a") == ([], ["k (line 1): must be a list, not a"])


def test_fields_leave_out_what_is_null():
    reader = Reader()

    fields = reader.fields(node_of("{a: 1, b: null, c: }"), "k", ("a", "b", "c"))

    assert list(fields) == ["a"]
    assert reader.problems == []


def test_fields_of_nothing_are_none():
    reader = Reader()

    assert reader.fields(None, "k", ("a",)) == {}
    assert reader.fields(node_of("~"), "k", ("a",)) == {}
    assert reader.problems == []


def test_fields_of_a_scalar_are_a_problem():
    reader = Reader()

    assert reader.fields(node_of("x"), "", ("a",)) == {}
    assert [str(p) for p in reader.problems] == ["document (line 1): must be a mapping, not a single value"]


def test_an_unknown_key_is_a_problem_on_its_own_line_even_when_null():
    (document,) = parse("weight: 1\nwieght:\n").documents
    reader = Reader()

    reader.fields(document, "p", ("weight",))

    assert [str(p) for p in reader.problems] == [
        "p.wieght (line 2): unknown key 'wieght'; did you mean 'weight'? known keys here: weight"
    ]


def test_where_a_value_stands_is_kept():
    reader = Reader()

    reader.integer(node_of("7"), "k")

    assert reader.provenance == {"k": "line 1"}


@pytest.mark.parametrize(
    ("word", "near"),
    [("lrucapacityperserver", "lruCapacityPerServer"), ("blocksize", "blockSize"), ("zzz", None)],
)
def test_the_closest_word_is_found_whatever_its_case(word, near):
    assert closest(word, ("lruCapacityPerServer", "blockSize", "tier")) == near


def test_a_remedy_lists_nothing_as_none():
    assert unknown_word_remedy("x", (), "known keys here") == "known keys here: none"
