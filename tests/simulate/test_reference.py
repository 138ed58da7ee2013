"""The published table of the guide "tiered prefix cache, CPU" is reproduced within the stated errors."""

import json

import pytest

from epp.cli import main
from epp.simulate.outcome import Outcome, RequestRow
from epp.simulate.reference import METRICS, REFERENCES, cells_of, run_reference
from epp.simulate.report import cells_as_json, cells_as_text


def errors(cells, metric, table=None):
    return [abs(c.error) for c in cells if c.metric == metric and table in (None, c.table)]


@pytest.mark.timeout(300)
def test_the_published_table_is_reproduced_within_the_stated_errors():
    """One test, so that the runs are made once, whatever process a test lands in."""
    cells = run_reference(REFERENCES["seed"], seeds=(1, 2, 3), jobs=2)

    exact = errors(cells, "e2e_mean_s") + errors(cells, "throughput_tok_s")
    assert len(exact) == 12
    assert max(exact) <= 0.08
    assert sum(exact) / 12 <= 0.04
    assert max(errors(cells, "ttft_mean_s", "high cache")) <= 0.12
    for cell in cells:
        if cell.table == "high cache" and "p90" in cell.metric:
            assert abs(cell.error) <= 0.20 or is_between_the_versions(cell)
        if cell.table == "low cache" and "ttft" in cell.metric:
            assert abs(cell.simulated - cell.published) <= 0.05
    rate = {(c.table, c.row): c.simulated for c in cells if c.metric == "throughput_tok_s"}
    for row in ("CPU offload", "LMCache"):  # the sign of what offload does
        assert 1.15 <= rate["high cache", row] / rate["high cache", "HBM only"] <= 1.35
        assert 0.96 <= rate["low cache", row] / rate["low cache", "HBM only"] <= 0.999


def is_between_the_versions(cell):
    """The guide's two versions differ in this cell."""
    other = cell.published_also or cell.published
    return min(cell.published, other) <= cell.simulated <= max(cell.published, other)


def outcome(ttft_s):
    row = RequestRow(0, 0, "a", 0.0, ttft_s, 10.0, 900, 100, 0, 0, 0, 0, 0)
    return Outcome(rows=[row])


ROW = next(row for row in REFERENCES["seed"].rows if (row.table, row.row) == ("high cache", "CPU offload"))


def test_a_cell_is_the_mean_over_seeds_and_its_error_a_fraction():
    cells = {cell.metric: cell for cell in cells_of(ROW, [outcome(6.0), outcome(8.0)])}

    assert cells["ttft_mean_s"].published == 6.7
    assert cells["ttft_mean_s"].simulated == 7.0
    assert cells["ttft_mean_s"].error == pytest.approx(0.0448, abs=0.0001)
    assert cells["throughput_tok_s"].simulated == 100.0
    assert cells["ttft_p90_s"].published_also == 15.9


def test_the_json_names_every_cell():
    shown = json.loads(cells_as_json(list(cells_of(ROW, [outcome(6.7)]))))

    assert shown["cells"][0] == {
        "table": "high cache",
        "row": "CPU offload",
        "metric": "ttft_mean_s",
        "published": 6.7,
        "simulated": 6.7,
        "error": 0.0,
    }
    assert [cell["metric"] for cell in shown["cells"]] == list(METRICS)


def test_the_text_has_both_published_versions_and_the_error():
    lines = [line.split() for line in cells_as_text(list(cells_of(ROW, [outcome(6.7)]))).splitlines()]

    assert lines[2] == [
        "high",
        "cache,",
        "CPU",
        "offload",
        "ttft_p90_s",
        "20.20",
        "(15.90)",
        "6.70",
        "-66.8%",
    ]


def test_an_unknown_reference_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--reference", "nothing"])

    assert ended.value.code == 2
    assert "invalid choice: 'nothing'" in capsys.readouterr().err


def test_the_ladder_has_rows_for_eight_published_rates():
    rows = REFERENCES["llm-d-5-40qps"].rows

    assert [(row.table, row.row) for row in rows] == [
        (table, f"{rate} QPS") for table in ("HBM only", "GPU + CPU") for rate in (5, 10, 20, 40)
    ]
