"""The size limits of the style guide, checked on every product module."""

import ast
import pathlib
import statistics

import pytest

ROOT = pathlib.Path(__file__).parents[2]
MODULES = sorted((ROOT / "epp").rglob("*.py"))


def functions(path: pathlib.Path) -> list[tuple[str, int]]:
    """Name and length in lines of every function in a module, docstring included."""
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(n.name, n.end_lineno - n.lineno + 1) for n in ast.walk(tree) if isinstance(n, kinds)]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module_has_at_most_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_function_is_longer_than_60_lines(path):
    assert [f for f in functions(path) if f[1] > 60] == []


def test_median_function_has_at_most_10_lines():
    lengths = [length for path in MODULES for _, length in functions(path)]

    assert statistics.median(lengths) <= 10


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_with_code_says_what_it_is_for(path):
    tree = ast.parse(path.read_text())

    assert not tree.body or ast.get_docstring(tree)
