"""YAML and JSON as nodes that know their line."""

import pytest

from epp.config.document import (
    Entry,
    MappingNode,
    Scalar,
    SequenceNode,
    describe,
    is_null,
    parse,
)


def only(text, first_line=1):
    parsed = parse(text, first_line)
    assert parsed.problems == ()
    (document,) = parsed.documents
    return document


def problems(text):
    return [str(problem) for problem in parse(text).problems]


def test_every_node_knows_its_line():
    document = only("a: 1\nb:\n- x\n- c: y\n")

    assert document == MappingNode(
        (
            Entry("a", Scalar("1", 1), 1),
            Entry(
                "b", SequenceNode((Scalar("x", 3), MappingNode((Entry("c", Scalar("y", 4), 4),), 4)), 3), 2
            ),
        ),
        1,
    )


def test_lines_are_counted_from_the_first_line_given():
    assert only("a: 1\n", first_line=40) == MappingNode((Entry("a", Scalar("1", 40), 40),), 40)


@pytest.mark.parametrize(
    ("text", "scalar"),
    [
        ("on", Scalar("on", 1)),
        ("0123", Scalar("0123", 1)),
        ("1e3", Scalar("1e3", 1)),
        ("1:30", Scalar("1:30", 1)),
        ("2026-01-01", Scalar("2026-01-01", 1)),
        ("'true'", Scalar("true", 1, quoted=True)),
        ('"a\\tb"', Scalar("a\tb", 1, quoted=True)),
        ("|\n  two\n  lines\n", Scalar("two\nlines\n", 1, quoted=True, literal=True)),
        (">\n  folded\n  text\n", Scalar("folded text\n", 1, quoted=True)),
    ],
)
def test_a_scalar_stays_the_text_that_was_written(text, scalar):
    assert only(text) == scalar


def test_keys_stay_the_text_that_was_written():
    assert [entry.key for entry in only("on: 1\n0123: 2\n~: 3\n").entries] == ["on", "0123", "~"]


def test_get_finds_a_key_or_nothing():
    document = only("a: 1\n")

    assert document.get("a") == Scalar("1", 1)
    assert document.get("b") is None


@pytest.mark.parametrize(
    ("text", "null"), [("", True), ("~", True), ("null", True), ("''", False), ("0", False)]
)
def test_only_bare_nothing_is_null(text, null):
    assert is_null(only(f"a: {text}\n").get("a")) is null


def test_tab_indented_json_is_read():
    document = only('{\n\t"a": "x",\n\t"b": [1, 2]\n}\n')

    assert document.get("a") == Scalar("x", 2, quoted=True)
    assert document.get("b") == SequenceNode((Scalar("1", 3), Scalar("2", 3)), 3)


def test_a_byte_order_mark_is_no_content():
    assert only('\ufeff{"a": 1}').get("a") == Scalar("1", 1)


def test_two_escapes_of_json_are_one_character():
    assert only('{"a": "\\ud83d\\ude00"}').get("a") == Scalar("😀", 1, quoted=True)


def test_half_a_surrogate_pair_is_a_problem():
    assert problems('a: "\\ud83d"') == ["a (line 1): holds half of a surrogate pair, which is no character"]


def test_all_duplicate_keys_are_told_with_both_lines():
    assert problems("a: 1\nb: {c: 1, c: 2}\na: 2\n") == [
        "b.c (line 2): is given twice, on line 2 and on line 2; keep one of them",
        "a (line 3): is given twice, on line 1 and on line 3; keep one of them",
    ]


def test_a_key_that_is_a_list_is_a_problem():
    assert problems("? [a]\n: 1\n") == ["document (line 1): has a key that is not a string"]


def test_an_alias_stands_for_what_its_anchor_marks():
    assert only("a: &x {k: 1}\nb: *x\n").get("b") == MappingNode((Entry("k", Scalar("1", 1), 1),), 1)


def test_aliases_of_aliases_are_not_copied_out():
    text = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))

    document = only(text)

    assert document.get("a59").items[0] is document.get("a58")


def test_a_node_that_contains_itself_is_a_problem():
    assert problems("a: &x [*x]\n") == ["a[0] (line 1): refers to itself"]


def test_an_application_tag_is_a_problem():
    assert problems("a: !secret x\n") == ["a (line 1): has the tag !secret; remove the tag"]


def test_deep_nesting_is_a_problem_and_no_crash():
    assert problems("[" * 5_000) == ["document: is nested too deeply"]


def test_a_syntax_error_tells_line_and_column():
    assert problems("a: 1\nb: [\n") == [
        "document (line 3): is not valid YAML: expected the node content, but found '<stream end>' (column 1)"
    ]


def test_a_tab_gets_the_remedy():
    assert problems("a:\n\tb: 1\n") == [
        "document (line 2): is not valid YAML: found character '\\t' that cannot start any token (column 1); indent with spaces, not tabs"
    ]


def test_a_control_character_is_a_problem():
    assert problems("a: \x01\n") == ["document: is not valid YAML: special characters are not allowed"]


def test_documents_that_hold_nothing_do_not_count():
    parsed = parse("---\n# nothing\n---\na: 1\n---\n")

    assert [document.line for document in parsed.documents] == [4]


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("{}", "a mapping"),
        ("[]", "a list"),
        ("abc", "abc"),
        ("'abc'", "the string 'abc'"),
        ("''", "the string ''"),
        ("~", "~"),
        ("", "''"),
        ("x" * 81, "x" * 80 + "…"),
    ],
)
def test_a_node_is_described_on_one_short_line(text, described):
    assert describe(only(f"k: {text}").get("k")) == described
