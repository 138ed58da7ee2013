"""docs/metrics.md and the metrics page say the same."""

import pathlib
import re

from prometheus_client.parser import text_string_to_metric_families

from epp.observability.families import FAMILIES
from tests.observability.builders import World

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(
    r"^\| `(?P<name>[a-z0-9_]+)` \| (?P<type>counter|gauge|histogram) \| (?P<labels>[^|]*) \|(?P<rest>.*)\|$"
)
TICKED = re.compile(r"`([^`]+)`")


def rows() -> dict[str, tuple[str, tuple[str, ...], list[str]]]:
    """Name → type, labels, the other cells."""
    found = {}
    for line in PAGE.read_text().splitlines():
        row = ROW.match(line)
        if row:
            assert row["name"] not in found, f"{row['name']} is documented twice"
            cells = [cell.strip() for cell in row["rest"].split(" | ")]
            found[row["name"]] = (row["type"], tuple(TICKED.findall(row["labels"])), cells)
    return found


def test_every_family_is_documented_with_type_and_labels_and_no_other_is():
    documented = {
        n: (kind, labels) for n, (kind, labels, _) in rows().items() if not n.startswith("process_")
    }

    assert documented == {f.name: (f.type, f.labels) for f in FAMILIES}


def test_every_row_says_what_it_means():
    assert [name for name, (_, _, cells) in rows().items() if len(cells[-1]) < 10] == []


def test_every_older_name_stands_beside_the_newer_with_the_labels_it_has():
    documented = rows()
    for family in FAMILIES:
        cells = documented[family.name][2]
        older = TICKED.findall(cells[0]) if len(cells) == 2 else []
        if family.twin is None:
            assert older == [], family.name
        else:
            name, *labels = older
            assert name == family.twin.name
            assert tuple(labels) == (
                () if tuple(family.twin.labels) == family.labels else tuple(family.twin.labels)
            )


def test_the_process_metrics_on_the_page_are_documented():
    page = [f for f in text_string_to_metric_families(World().page()) if f.name.startswith("process_")]
    names = {f.name + ("_total" if f.type == "counter" else ""): f.type for f in page}

    assert {n: kind for n, (kind, _, _) in rows().items() if n.startswith("process_")} == names


def test_queries_name_metrics_that_exist():
    names = {name for family in FAMILIES for name in family.names} | set(rows())
    suffixed = names | {
        f"{f.name}_{s}" for f in FAMILIES if f.type == "histogram" for s in ("bucket", "sum", "count")
    }
    queries = re.findall(r"```promql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    used = set(re.findall(r"\b(?:epp|llm_d_epp|process|inference)_[a-z0-9_]+", "\n".join(queries)))

    assert used
    assert used - suffixed == set()


def test_buckets_are_documented_as_they_are():
    table = PAGE.read_text().partition("## Buckets")[2]
    documented = {}
    for names, bounds in re.findall(r"^\| (`.*?) \| ([0-9. e+-]+) \|$", table, re.MULTILINE):
        for name in TICKED.findall(names):
            documented[name] = tuple(float(bound) for bound in bounds.split())

    assert documented == {f.name: f.bounds for f in FAMILIES if f.bounds}
