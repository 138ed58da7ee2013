"""The generated part of a page of the documentation. Pure."""

__all__ = ["BEGIN", "END", "PageError", "with_block"]

BEGIN = "<!-- figures: written by bench/report.py -->"
END = "<!-- end of figures -->"


class PageError(Exception):
    """The page has not both markers, once and in order."""


def with_block(page: str, block: str) -> str:
    """The page with the block between its markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise PageError(f"needs {BEGIN!r} and then {END!r}, each once")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{block.strip()}\n\n{END}{tail}"
