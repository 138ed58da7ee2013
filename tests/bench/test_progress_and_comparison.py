"""Remaining time, and what slid."""

import pytest

from bench.suite.comparison import compare, lines_of
from bench.suite.instructions import parse_count
from bench.suite.measuring import figures, fullness_of, metrics_page
from bench.suite.progress import Progress
from bench.suite.samples import Samples
from bench.suite.tools import ToolError


def test_at_first_the_remaining_time_is_the_estimate():
    assert Progress(100.0, began_s=0.0).left_s(3.0) == 100.0


def test_the_remaining_time_follows_how_true_estimates_were():
    progress = Progress(100.0, began_s=1000.0)
    progress.done(50.0)
    assert progress.left_s(1100.0) == 100.0  # half took 100 s, not 50
    assert progress.line(1100.0, "next") == "[ 50%, 2 min left] next"
    progress.done(40.0)
    assert progress.line(1180.0, "last") == "[ 90%, 20 s left] last"


def test_more_than_everything_leaves_nothing():
    progress = Progress(10.0, began_s=0.0)
    progress.done(12.0)
    assert progress.left_s(99.0) == 0.0


def of(epp: float, nginx: float, instructions: float | None = None) -> Samples:
    found = Samples()
    found.add("1kb", "epp", {"cpu_us": epp})
    found.add("1kb", "nginx", {"cpu_us": nginx})
    if instructions:
        found.add("instructions", "epp", {"life": instructions})
    return found


def test_a_slower_machine_alone_is_no_slide():
    assert not any(slide.slid for slide in compare(of(180, 40), of(90, 20)))


@pytest.mark.parametrize(("now", "slid"), [(of(104, 20), True), (of(103, 20), False)])
def test_a_ratio_may_grow_by_fifteen_in_a_hundred(now, slid):
    assert [slide.what for slide in compare(now, of(90, 20)) if slide.slid] == (
        ["epp/nginx 1kb"] if slid else []
    )


def test_instructions_may_grow_by_three_in_a_hundred():
    slides = compare(of(90, 20, 2_100_000), of(90, 20, 2_000_000))
    lines = lines_of(slides)
    assert lines[-1] == "slid: instructions a request in the core"
    assert lines[-2].split() == [
        "instructions",
        "a",
        "request",
        "in",
        "the",
        "core",
        "2,100,000",
        "2,000,000",
        "+5%",
        "SLID",
    ]


def test_what_was_not_measured_did_not_slide():
    assert lines_of(compare(Samples(), of(90, 20)))[-1] == "nothing slid"


def test_instructions_are_read_from_what_cachegrind_prints():
    assert parse_count("==1== \n==1== I   refs:      4,868,401,188\n") == 4_868_401_188
    with pytest.raises(ToolError, match="counted nothing"):
        parse_count("==1== killed")


def test_figures_of_a_load_are_a_request_and_a_chunk():
    seen = {
        "requests": 100,
        "errors": 1,
        "seconds": 2.0,
        "chunks": 1000,
        "latency_us": {"count": 99, "p50": 5, "p99": 9, "p999": 9, "max": 10},
        "ttft_us": {"count": 0},
        "chunk_delay_us": {"count": 900, "p50": 50, "p99": 90, "p999": 95, "max": 99},
    }
    found = figures(seen, cpu_s=0.05)
    assert (found["cpu_us"], found["cpu_us_chunk"], found["requests_s"]) == (500.0, 50.0, 50.0)
    assert (found["chunk_delay_p99_us"], found["errors"]) == (90, 1)
    assert "ttft_p50_us" not in found


def test_the_servers_page_is_the_recorded_one_with_known_sizes():
    page = metrics_page().decode()
    assert 'num_gpu_blocks="31250"' in page
    assert 'block_size="16"' in page
    assert "vllm:num_requests_waiting" in page
    assert len(page) > 60_000


def test_fullness_is_over_all_endpoints_and_views():
    page = (
        "# TYPE epp_index_tokens gauge\n"
        'epp_index_tokens{view="gpu",endpoint="a"} 100\nepp_index_tokens{view="cpu",endpoint="a"} 50\n'
        'epp_index_capacity_tokens{view="gpu",endpoint="a"} 200\n'
        'epp_index_capacity_tokens{view="cpu",endpoint="a"} 400\nother 7\n'
    )
    assert fullness_of(page) == 0.25
    assert fullness_of("") == 0.0
