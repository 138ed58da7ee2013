"""What epp learns about real servers before the first request."""

import httpx
import pytest

from epp.scrape.models import SAMPLE_TEXT

pytestmark = [pytest.mark.realvllm, pytest.mark.timeout(360)]


def test_the_metrics_page_tells_block_size_and_gpu_capacity(router, servers):
    for server in servers:
        metrics = router.endpoint(server)["metrics"]

        assert metrics["engine"] == "vllm"
        assert metrics["block_tokens"] == 32
        assert metrics["gpu_capacity_tokens"] == 8192
        assert metrics["prefix_caching"] is True


def test_the_gpu_tier_is_as_large_as_reported_and_the_cpu_tier_as_configured(router, servers):
    for server in servers:
        address = server.address

        assert router.metric("epp_index_capacity_tokens", tier="gpu", endpoint=address) == 8192
        assert router.metric("epp_index_capacity_tokens", tier="cpu", endpoint=address) == 65_536


def test_the_served_models_are_those_of_the_servers(router, servers):
    for server in servers:
        assert [model["id"] for model in router.endpoint(server)["models"]] == ["tiny"]
    assert [model.id for model in router.openai.models.list()] == ["tiny"]


def test_bytes_per_token_come_from_the_servers_tokenizer(router, servers):
    body = {"model": "tiny", "prompt": SAMPLE_TEXT, "add_special_tokens": False}
    count = httpx.post(f"{servers[0].url}/tokenize", json=body).json()["count"]

    assert router.state()["ratios"]["tiny"] == pytest.approx(len(SAMPLE_TEXT.encode()) / count)
    assert router.ended() == 0
