"""The size limits of the style guide, checked on every product module."""

import ast
import pathlib
import re
import statistics

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = {str(p.relative_to(ROOT)): p.read_text() for p in sorted((ROOT / "epp").rglob("*.py"))}


def functions(source: str) -> list[tuple[str, int]]:
    """Name and length in lines of every function in a module, docstring included."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (n.name, n.end_lineno - n.lineno + 1) for n in ast.walk(ast.parse(source)) if isinstance(n, kinds)
    ]


def test_no_module_has_more_than_400_lines():
    assert [path for path, source in SOURCES.items() if len(source.splitlines()) > 400] == []


def test_no_function_is_longer_than_60_lines():
    assert [(path, f) for path, source in SOURCES.items() for f in functions(source) if f[1] > 60] == []


def test_median_function_has_at_most_10_lines():
    assert statistics.median(length for source in SOURCES.values() for _, length in functions(source)) <= 10


def test_every_module_with_code_says_what_it_is_for():
    trees = {path: ast.parse(source) for path, source in SOURCES.items()}

    assert [path for path, tree in trees.items() if tree.body and not ast.get_docstring(tree)] == []


def test_no_test_reads_a_stream_through_an_iterator_that_nobody_holds():
    """Such a one is collected at some time after, and closes the answer while the test goes on."""
    unheld = re.compile(r"anext\([\w.]+\.aiter_\w+\(\)\)")
    tests = {p: p.read_text() for p in (ROOT / "tests").rglob("*.py")}

    assert [str(p) for p, text in tests.items() if unheld.search(text)] == []
