"""What was read of a metrics page.

E02 (PS i617, GIE p1905): a renamed metric. E03 (LR p1467): adapters absent. E08 (GIE i1219): NaN. E09: one bad line lost the
page. E11 (AX p2331): two models in one pod.
"""

import pytest

from epp.endpoints.types import EndpointMetrics, ModelLoad
from epp.scrape.engines import Selector
from epp.scrape.page import CoreNames, PageError, PageReader
from tests.scrape.fakes import endpoint
from tests.scrape.test_scraper import Scene


def read(*lines, names=None):
    return PageReader(names or CoreNames()).read("\n".join(lines).encode() + b"\n")


OLD, NEW = "vllm:gpu_cache_usage_perc 0.4", "vllm:kv_cache_usage_perc {}"


def test_e02_either_name_counts_and_the_newer_one_wins():
    found = [
        read(OLD).metrics.kv_usage,
        read(NEW.format(0.4)).metrics.kv_usage,
        read(OLD, NEW.format(0.9)).metrics.kv_usage,
        read("my:usage 0.7", OLD, names=CoreNames(kv_usage=Selector("my:usage"))).metrics.kv_usage,
    ]

    assert found == [0.4, 0.4, 0.9, 0.7]


def test_e03_without_adapters_there_are_none_and_no_error():
    page = read("vllm:num_requests_waiting 0")

    assert (page.metrics.running_adapters, page.metrics.max_adapters, page.rejected) == (
        (),
        None,
        frozenset(),
    )


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1.7"])
async def test_e08_what_cannot_be_true_is_refused_and_the_last_good_value_stands_in_until_it_is_stale(value):
    scene = Scene(endpoint(1), refresh_interval_s=0.5, stale_s=2.0)
    page = 'vllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc{engine="0"} %s\n'
    scene.network.answers["10.0.0.1"] = (page % "0.4").encode()
    await scene.run(0.4)
    scene.network.answers["10.0.0.1"] = (page % value).encode()
    await scene.run(4.0)
    await scene.scraper.stop()
    found = [metrics.kv_usage for _, _, metrics, _ in scene.receiver.metrics]

    assert found[:4] == [0.4, 0.4, 0.4, 0.4]
    assert found[-1] is None
    assert {metrics.waiting for _, _, metrics, _ in scene.receiver.metrics} == {1.0}


@pytest.mark.parametrize(
    "page",
    [
        b"vllm:num_requests_waiting abc\n",
        b'vllm:num_requests_waiting{x="2',
        b"<html><body>vllm:num_requests_waiting 3</body></html>",
    ],
)
async def test_e09_a_bad_page_is_a_counted_fault_and_the_old_values_stay(page):
    scene = Scene(endpoint(1), refresh_interval_s=0.5)
    await scene.run(0.4)
    told = len(scene.receiver.metrics)
    scene.network.answers["10.0.0.1"] = page
    await scene.run(0.5)
    await scene.scraper.stop()

    with pytest.raises(PageError):
        PageReader().read(page)
    assert len(scene.receiver.metrics) == told
    assert [str(kind) for _, _, kind, _, _ in scene.receiver.failures] == ["parse-error"]


@pytest.mark.parametrize(
    "page",
    [
        b"vllm:num_requests_waiting 3\r\nvllm:num_requests_running 1\r\n",
        b"vllm:num_requests_running 1\nvllm:num_requests_waiting 3",
        b'vllm:num_requests_waiting 3 # {trace_id="a"} 1\nvllm:num_requests_running 1\n',
        b"vllm:num_requests_waiting 3 1395066363000\nvllm:num_requests_running 1 1395066363000\n",
    ],
    ids=["crlf", "no-final-newline", "exemplar", "timestamp"],
)
def test_e09_other_forms_of_a_good_page_are_read(page):
    assert PageReader().read(page).metrics == EndpointMetrics(
        waiting=3.0, running=1.0, engine="vllm", engines=1
    )


def test_e11_two_models_in_one_process_are_told_apart_and_summed():
    line = 'vllm:num_requests_waiting{{model_name="{}"}} {}'
    metrics = read(line.format("a", 3), line.format("b", 7)).metrics

    assert metrics.waiting == 10.0
    assert metrics.by_model == {"a": ModelLoad(3.0, None, None), "b": ModelLoad(7.0, None, None)}
