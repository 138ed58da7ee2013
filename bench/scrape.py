"""What reading one page of metrics costs, beside the parser of prometheus_client.

    python bench/scrape.py

µs of one page recorded from vLLM 0.32, the best of five series. What scraping a whole fleet costs the running
router is row 8 of the suite: `python bench/run.py --only 8`.
"""

import timeit
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from epp.scrape import PageReader

FIXTURES = Path(__file__).resolve().parents[1] / "tests/fixtures/vllm"


def microseconds(call, number: int) -> float:
    return min(timeit.repeat(call, number=number, repeat=5)) / number * 1e6


def main() -> None:
    for name in ("idle", "busy"):
        page = (FIXTURES / f"metrics-{name}.txt").read_bytes()
        reader, text = PageReader(), page.decode()
        ours = microseconds(lambda page=page, reader=reader: reader.read(page), 200)
        theirs = microseconds(lambda text=text: list(text_string_to_metric_families(text)), 3)
        print(f"{name} page, {len(page):,} bytes: {ours:.0f} µs, prometheus_client {theirs:.0f} µs")


if __name__ == "__main__":
    main()
