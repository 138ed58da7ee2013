"""What pages of engines say."""

import pathlib

import pytest

from epp.endpoints.types import EndpointMetrics, ModelLoad
from epp.scrape.engines import Selector
from epp.scrape.page import CoreNames, PageError, PageReader

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures" / "vllm"


def read(*lines: str, names: CoreNames | None = None):
    reader = PageReader(names) if names else PageReader()
    return reader.read("\n".join(lines).encode())


def metrics(*lines: str) -> EndpointMetrics:
    return read(*lines).metrics


@pytest.mark.parametrize(
    ("page", "prompt", "generated", "device", "host"),
    [("metrics-idle.txt", 0.0, 0.0, 0.0, 0.0), ("metrics-busy.txt", 27259.0, 66.0, 2176.0, 4384.0)],
)
def test_recorded_pages_of_vllm_0_32(page, prompt, generated, device, host):
    result = PageReader().read((FIXTURES / page).read_bytes())

    assert result.rejected == frozenset()
    assert result.metrics == EndpointMetrics(
        waiting=0.0,
        running=0.0,
        kv_usage=0.0,
        block_tokens=32,
        gpu_capacity_tokens=8192,
        prefix_caching=True,
        prompt_tokens_total=prompt,
        generation_tokens_total=generated,
        cached_tokens_by_source={
            "device": device,
            "host": host,
            "p2p": 0.0,
            "disk": 0.0,
            "external_unspecified": 0.0,
        },
        process_start=1796041397.18,
        engine="vllm",
        awake=True,
        engines=1,
        waiting_for_capacity=0.0,
    )


@pytest.mark.parametrize("page", ["", "\n", "# HELP a b\n", "go_goroutines 7\n"])
def test_page_that_names_nothing_known_says_nothing(page):
    result = PageReader().read(page.encode())

    assert result.metrics == EndpointMetrics()
    assert result.rejected == frozenset()


def test_page_that_is_no_page_is_an_error():
    with pytest.raises(PageError):
        PageReader().read(b"<html></html>")


class TestVllm:
    def test_usage_by_its_new_and_its_old_name(self):
        new, old = "vllm:kv_cache_usage_perc 0.9", "vllm:gpu_cache_usage_perc 0.4"

        assert metrics(old).kv_usage == 0.4
        assert metrics(new).kv_usage == 0.9
        assert metrics(old, new).kv_usage == 0.9

    def test_data_parallel_engines_are_summed_and_their_usage_averaged(self):
        result = metrics(
            'vllm:num_requests_waiting{engine="0",model_name="m"} 3',
            'vllm:num_requests_waiting{engine="1",model_name="m"} 4',
            'vllm:num_requests_running{engine="0",model_name="m"} 10',
            'vllm:num_requests_running{engine="1",model_name="m"} 20',
            'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2',
            'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.6',
        )

        assert (result.waiting, result.running, result.kv_usage, result.engines) == (7.0, 30.0, 0.4, 2)
        assert result.by_model == {}

    def test_blocks_of_all_engines_are_divided(self):
        config = 'vllm:cache_config_info{block_size="16",engine="%d",num_gpu_blocks="4000"} 1'
        gauge = 'vllm:num_requests_running{engine="%d",model_name="m"} 1'

        assert metrics(config % 0).gpu_capacity_tokens == 64_000
        assert metrics(gauge % 0, gauge % 1, config % 0, config % 1).gpu_capacity_tokens == 32_000

    def test_capacity_in_tokens_is_one_engines_own_and_goes_first(self):
        config = 'vllm:cache_config_info{block_size="16",engine="%d",num_gpu_blocks="4000",kv_cache_size_tokens="30000"} 1'
        gauge = 'vllm:num_requests_running{engine="%d"} 1'

        assert metrics(gauge % 0, gauge % 1, config % 0, config % 1).gpu_capacity_tokens == 30_000

    def test_smallest_engine_counts_where_capacities_differ(self):
        config = 'vllm:cache_config_info{engine="%d",kv_cache_size_tokens="%d"} 1'

        assert metrics(config % (0, 500), config % (1, 400)).gpu_capacity_tokens == 400

    def test_unset_labels_are_unknown(self):
        result = metrics(
            'vllm:cache_config_info{block_size="None",num_gpu_blocks="None",kv_cache_size_tokens="0",'
            'enable_prefix_caching="None",cache_hit_alignment_tokens="None"} 1'
        )

        assert result == EndpointMetrics(engine="vllm")

    @pytest.mark.parametrize(("text", "value"), [("True", True), ("False", False)])
    def test_prefix_caching_on_and_off(self, text, value):
        assert metrics(f'vllm:cache_config_info{{enable_prefix_caching="{text}"}} 1').prefix_caching is value

    @pytest.mark.parametrize(
        ("labels", "unit"),
        [
            ('prefix_match_unit="16"', 16),
            ('prefix_match_unit="16",cache_hit_alignment_tokens="64"', 64),
            ('prefix_match_unit="16",cache_hit_alignment_tokens="None"', 16),
            ('block_size="16"', None),
        ],
    )
    def test_hit_unit_is_the_alignment_else_the_match_unit(self, labels, unit):
        assert metrics(f"vllm:cache_config_info{{{labels}}} 1").hit_unit_tokens == unit

    def test_offload_tier_told_in_tokens(self):
        result = metrics(
            'vllm:cache_config_info{block_size="16"} 1',
            'vllm:kv_offload_config_info{cpu_num_chunks="100",cpu_blocks_per_chunk="4",'
            'cpu_kv_cache_size_tokens="6400",engine="0"} 1',
        )

        assert (result.cpu_capacity_tokens, result.cpu_hit_unit_tokens) == (6400, 64)

    def test_offload_tier_told_in_chunks(self):
        result = metrics(
            'vllm:cache_config_info{block_size="16"} 1',
            'vllm:kv_offload_config_info{cpu_num_chunks="100",cpu_blocks_per_chunk="4"} 1',
        )

        assert (result.cpu_capacity_tokens, result.cpu_hit_unit_tokens) == (6400, 64)

    def test_simple_offload_connector_tells_blocks(self):
        result = metrics(
            'vllm:cache_config_info{block_size="16"} 1',
            'vllm:simple_kv_offload_info{backend="cpu",capacity_blocks="2048"} 1',
        )

        assert (result.cpu_capacity_tokens, result.cpu_hit_unit_tokens) == (32_768, None)

    def test_blocks_without_a_block_size_are_no_capacity(self):
        result = metrics(
            'vllm:cache_config_info{num_gpu_blocks="100"} 1',
            'vllm:simple_kv_offload_info{capacity_blocks="2048"} 1',
        )

        assert (result.gpu_capacity_tokens, result.cpu_capacity_tokens) == (None, None)

    def test_waiting_by_reason(self):
        reasons = (
            'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 3',
            'vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 4',
            'vllm:num_requests_waiting_by_reason{engine="1",reason="capacity"} 5',
        )

        assert (metrics(*reasons).waiting, metrics(*reasons).waiting_for_capacity) == (12.0, 8.0)
        assert metrics(*reasons, 'vllm:num_requests_waiting{engine="0"} 6').waiting == 6.0

    def test_two_models_on_one_page(self):
        result = metrics(
            'vllm:num_requests_waiting{engine="0",model_name="a"} 3',
            'vllm:num_requests_waiting{engine="0",model_name="b"} 7',
            'vllm:num_requests_running{engine="0",model_name="a"} 1',
            'vllm:kv_cache_usage_perc{engine="0",model_name="b"} 0.5',
        )

        assert (result.waiting, result.running, result.engines) == (10.0, 1.0, 1)
        assert result.by_model == {"a": ModelLoad(3.0, 1.0, None), "b": ModelLoad(7.0, None, 0.5)}

    def test_newest_adapter_series_counts(self):
        line = (
            'vllm:lora_requests_info{max_lora="%s",running_lora_adapters="%s",waiting_lora_adapters="%s"} %s'
        )
        result = metrics(
            line % (4, "old", "", "1.7e9"), line % (4, "a,b", "c", "1.8e9"), line % (4, "nan", "", "NaN")
        )

        assert (result.running_adapters, result.waiting_adapters, result.max_adapters) == (
            ("a", "b"),
            ("c",),
            4,
        )

    def test_adapters_are_optional(self):
        result = metrics("vllm:num_requests_waiting 0", 'vllm:lora_requests_info{max_lora="x"} 1')

        assert (result.running_adapters, result.waiting_adapters, result.max_adapters) == ((), (), None)

    @pytest.mark.parametrize(("values", "awake"), [((1, 1), True), ((1, 0), False), ((0, 0), False)])
    def test_endpoint_is_awake_when_every_engine_is(self, values, awake):
        lines = [
            f'vllm:engine_sleep_state{{engine="{engine}",sleep_state="{state}"}} {value}'
            for engine, value in enumerate(values)
            for state, value in (("awake", value), ("discard_all", 1 - value))
        ]

        assert metrics(*lines).awake is awake

    def test_created_series_are_not_counters(self):
        result = metrics("vllm:prompt_tokens_created 1.7e9", "vllm:prompt_tokens_total 5")

        assert result.prompt_tokens_total == 5.0

    def test_counters_of_all_engines_are_summed(self):
        result = metrics(
            'vllm:prompt_tokens_total{engine="0"} 5',
            'vllm:prompt_tokens_total{engine="1"} 6',
            'vllm:generation_tokens_total{engine="0"} 7',
        )

        assert (result.prompt_tokens_total, result.generation_tokens_total) == (11.0, 7.0)


class TestCachedTokens:
    TIERS = (
        'vllm:prompt_tokens_cached_by_source_total{engine="0",source="device"} 1',
        'vllm:prompt_tokens_cached_by_source_total{engine="1",source="device"} 2',
        'vllm:prompt_tokens_cached_by_source_total{engine="0",source="host"} 4',
    )
    SOURCES = (
        'vllm:prompt_tokens_by_source_total{source="local_compute"} 100',
        'vllm:prompt_tokens_by_source_total{source="local_cache_hit"} 10',
        'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"} 20',
    )
    HITS = ("vllm:prefix_cache_hits_total 30", "vllm:external_prefix_cache_hits_total 40")
    OLD = ("vllm:gpu_prefix_cache_hits_total 50",)

    @pytest.mark.parametrize(
        ("lines", "tokens"),
        [
            ((*TIERS, *SOURCES, *HITS, *OLD), {"device": 3.0, "host": 4.0}),
            ((*SOURCES, *HITS, *OLD), {"device": 10.0, "external_unspecified": 20.0}),
            ((*HITS, *OLD), {"device": 30.0, "external_unspecified": 40.0}),
            (HITS[:1], {"device": 30.0}),
            (OLD, {"device": 50.0}),
            (("vllm:num_requests_waiting 0",), {}),
            (
                (
                    'sglang:cached_tokens_total{cache_source="device",is_streaming="true"} 1',
                    'sglang:cached_tokens_total{cache_source="device",is_streaming="false"} 2',
                    'sglang:cached_tokens_total{cache_source="host"} 4',
                ),
                {"device": 3.0, "host": 4.0},
            ),
            (("sglang:cached_tokens_total 9",), {"device": 9.0}),
        ],
    )
    def test_most_detailed_counters_count(self, lines, tokens):
        assert metrics(*lines).cached_tokens_by_source == tokens


class TestOtherEngines:
    def test_sglang(self):
        result = metrics(
            'sglang:num_queue_reqs{model_name="m"} 2',
            'sglang:num_running_reqs{model_name="m"} 3',
            'sglang:token_usage{model_name="m"} 0.25',
            'sglang:page_size{model_name="m"} 64',
            'sglang:num_pages{model_name="m"} 1000',
            'sglang:max_total_num_tokens{model_name="m"} 63000',
            'sglang:hicache_host_total_tokens{model_name="m"} 128000',
            'sglang:prompt_tokens_total{model_name="m"} 500',
            'sglang:generation_tokens_total{model_name="m"} 50',
            "process_start_time_seconds 1.7e9",
        )

        assert result == EndpointMetrics(
            waiting=2.0,
            running=3.0,
            kv_usage=0.25,
            block_tokens=64,
            gpu_capacity_tokens=63_000,
            cpu_capacity_tokens=128_000,
            prompt_tokens_total=500.0,
            generation_tokens_total=50.0,
            process_start=1.7e9,
            engine="sglang",
            engines=1,
        )

    def test_sglang_ranks_of_one_engine_are_not_summed_and_engines_are(self):
        result = metrics(
            'sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} 2',
            'sglang:num_queue_reqs{dp_rank="0",tp_rank="1"} 2',
            'sglang:num_queue_reqs{dp_rank="1",tp_rank="2"} 5',
            'sglang:max_total_num_tokens{dp_rank="0",tp_rank="0"} 1000',
            'sglang:max_total_num_tokens{dp_rank="1",tp_rank="2"} 900',
        )

        assert (result.waiting, result.engines, result.gpu_capacity_tokens) == (7.0, 2, 900)

    def test_sglang_capacity_in_pages_and_in_the_labels_of_older_versions(self):
        assert metrics("sglang:page_size 64", "sglang:num_pages 10").gpu_capacity_tokens == 640
        result = metrics('sglang:cache_config_info{page_size="16",num_pages="100"} 1')
        assert (result.block_tokens, result.gpu_capacity_tokens) == (16, 1600)

    def test_sglang_without_a_host_tier_has_none(self):
        assert metrics("sglang:hicache_host_total_tokens 0").cpu_capacity_tokens is None

    def test_trtllm_serve(self):
        result = metrics(
            "trtllm_num_requests_waiting 2",
            "trtllm_num_requests_running 3",
            "trtllm_kv_cache_utilization 0.5",
            "trtllm_kv_cache_tokens_per_block 32",
            "trtllm_kv_cache_max_blocks 1000",
        )

        assert result == EndpointMetrics(
            waiting=2.0,
            running=3.0,
            kv_usage=0.5,
            block_tokens=32,
            gpu_capacity_tokens=32_000,
            engine="trtllm-serve",
            engines=1,
        )

    def test_triton_with_tensorrt_llm(self):
        requests = 'nv_trt_llm_request_metrics{model="m",request_type="%s",version="1"} %d'
        blocks = 'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="%s",model="m",version="1"} %s'
        result = metrics(
            requests % ("waiting", 2),
            requests % ("scheduled", 3),
            requests % ("active", 5),
            blocks % ("fraction", "0.5"),
            blocks % ("tokens_per", "64"),
            blocks % ("max", "100"),
            blocks % ("used", "50"),
        )

        assert result == EndpointMetrics(
            waiting=2.0,
            running=3.0,
            kv_usage=0.5,
            block_tokens=64,
            gpu_capacity_tokens=6400,
            engine="triton-tensorrt-llm",
            engines=1,
        )


class TestRefusedSamples:
    @pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1.7"])
    def test_usage_that_cannot_be_true_is_refused_and_the_rest_is_read(self, value):
        result = read(f'vllm:kv_cache_usage_perc{{engine="0"}} {value}', "vllm:num_requests_waiting 3")

        assert (result.metrics.kv_usage, result.metrics.waiting) == (None, 3.0)
        assert result.rejected == {"kv_usage"}

    def test_one_bad_engine_refuses_the_sum(self):
        result = read('vllm:num_requests_waiting{engine="0"} 3', 'vllm:num_requests_waiting{engine="1"} NaN')

        assert (result.metrics.waiting, result.rejected) == (None, {"waiting"})

    def test_refused_new_name_is_not_replaced_by_the_old_one(self):
        result = read("vllm:kv_cache_usage_perc NaN", "vllm:gpu_cache_usage_perc 0.4")

        assert (result.metrics.kv_usage, result.rejected) == (None, {"kv_usage"})

    def test_counters_and_capacities_are_refused_too(self):
        result = read(
            "process_start_time_seconds NaN",
            "sglang:prompt_tokens_total -1",
            'sglang:cached_tokens_total{cache_source="host"} NaN',
            "sglang:max_total_num_tokens +Inf",
        )

        assert result.metrics == EndpointMetrics(engine="sglang")
        assert result.rejected == {
            "process_start",
            "prompt_tokens_total",
            "cached_tokens_by_source",
            "gpu_capacity_tokens",
        }

    def test_full_cache_is_a_usage(self):
        assert metrics("vllm:kv_cache_usage_perc 1.0").kv_usage == 1.0


class TestConfiguredNames:
    NAMES = CoreNames(
        waiting=Selector("my_queue", (("kind", "all"),)),
        running=Selector("my_running"),
        kv_usage=Selector("my_kv"),
    )

    def test_configured_names_go_before_the_engines_own(self):
        result = read(
            'my_queue{kind="all"} 7',
            'my_queue{kind="some"} 1',
            "my_running 8",
            "my_kv 0.5",
            "vllm:num_requests_waiting 1",
            "vllm:num_requests_running 1",
            "vllm:kv_cache_usage_perc 0.1",
            names=self.NAMES,
        ).metrics

        assert (result.waiting, result.running, result.kv_usage, result.engine) == (7.0, 8.0, 0.5, "vllm")

    def test_engines_own_names_count_where_the_configured_are_absent(self):
        result = read("vllm:num_requests_waiting 1", names=self.NAMES).metrics

        assert (result.waiting, result.running) == (1.0, None)

    def test_configured_names_alone_are_an_unknown_engine(self):
        result = read('my_queue{kind="all"} 7', names=self.NAMES).metrics

        assert (result.waiting, result.engine) == (7.0, None)


def test_parts_that_add_up_to_more_than_can_be_are_refused():
    text = (
        'vllm:kv_cache_usage_perc{model_name="m",part="a"} 0.75\nvllm:kv_cache_usage_perc{model_name="m",part="b"} 0.75\n'
        'vllm:num_requests_waiting{model_name="m",reason="a"} 1.7e308\nvllm:num_requests_running{model_name="m"} 3\n'
    )
    page = PageReader().read(text.encode())

    assert (page.metrics.kv_usage, page.metrics.waiting, page.metrics.running) == (None, None, 3)
    assert page.rejected == {"kv_usage", "waiting"}


def test_a_reader_tells_configurations_apart_and_sees_that_one_changes():
    line = 'vllm:num_requests_running{{engine="{rank}",model_name="m"}} 0\n'
    config = 'vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="{blocks}"}} 1.0\n'
    pages = [
        line.format(rank=0) + config.format(blocks=100),
        line.format(rank=0) + config.format(blocks=200),
        line.format(rank=0) + line.format(rank=1) + config.format(blocks=200),
        line.format(rank=0) + config.format(blocks=100),
    ]
    reader = PageReader()

    assert [reader.read(page.encode()).metrics.gpu_capacity_tokens for page in pages * 2] == [
        1600, 3200, 1600, 1600,
    ] * 2  # fmt: skip
