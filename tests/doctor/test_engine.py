"""Flags and versions of the engine, and what a completion shows."""

import pytest

from epp.doctor import Answer, Severity
from tests.doctor.builders import IDLE, LOAD_ONLY, NO_OFFLOAD, edited, found, seen, view

TWO_RANKS = IDLE + 'vllm:num_requests_waiting{engine="1",model_name="tiny"} 0.0\n'


def test_engines_behind_one_port_lose_prefix_hits():
    finding = found(seen(page=TWO_RANKS))["data-parallel"]

    assert finding.severity is Severity.WARNING
    assert finding.seen == "2 engines on one page"
    assert "1 of 2 are lost" in finding.why


def test_without_a_view_several_engines_lose_nothing():
    assert found(seen(page=TWO_RANKS), config=LOAD_ONLY) == {}


@pytest.mark.parametrize(
    ("version", "unusable"), [("0.11.0", False), ("0.11.1", True), ("0.13.0", True), ("0.14.0", False)]
)
def test_the_offload_flag_of_0_11_1_to_0_13_cannot_work(version, unusable):
    page = edited(IDLE, kv_offloading_size="100.0")

    findings = found(seen(page=page, version=version), config=view("gpu"))

    assert ("offload-flag-unusable" in findings) is unusable


@pytest.mark.parametrize("labels", [{}, {"kv_offloading_size": "100.0", "kv_offloading_backend": "lmcache"}])
def test_the_trap_needs_the_flag_and_the_native_backend(labels):
    page = edited(IDLE, **labels)

    assert "offload-flag-unusable" not in found(seen(page=page, version="0.12.0"), config=view("gpu"))


def test_old_versions_do_not_tell_external_hits():
    findings = found(seen(page=NO_OFFLOAD, version="0.11.0"), config=view("cpu"))

    assert set(findings) == {"cpu-tier-unproven", "external-hits-untold", "answers-offloaded"}


@pytest.mark.parametrize(("version", "told"), [("0.22.1", True), ("0.23.0", False)])
def test_generated_tokens_took_room_before_0_23(version, told):
    assert ("answers-offloaded" in found(seen(version=version), config=view("cpu"))) is told


def test_versions_of_the_cpu_tier_do_not_matter_without_a_cpu_view():
    assert set(found(seen(page=NO_OFFLOAD, version="0.11.0"), config=view("gpu"))) == set()


@pytest.mark.parametrize(
    "body",
    [
        b'{"usage": {"prompt_tokens": 1, "prompt_tokens_details": null}}',
        b'{"usage": {"prompt_tokens": 1}}',
        b'{"usage": {"prompt_tokens_details": {"cached_tokens": null}}}',
        b'{"usage": null}',
        b"{}",
        b"?",
    ],
)
def test_usage_without_cached_tokens_names_the_flag(body):
    finding = found(seen(probe=Answer(200, body)))["prompt-details-off"]

    assert "--enable-prompt-tokens-details" in finding.remedy


def test_usage_with_cached_tokens_is_fine():
    probe = Answer(200, b'{"usage": {"prompt_tokens_details": {"cached_tokens": 0}}}')

    assert "prompt-details-off" not in found(seen(probe=probe))


def test_a_failed_completion_is_told():
    findings = found(seen(probe=Answer(500)))

    assert findings["probe-failed"].seen == "/v1/completions answered 500"
    assert "prompt-details-off" not in findings


def test_an_endpoint_without_a_page_is_not_judged_as_an_engine():
    assert set(found(seen(page=Answer(404)))) == {"metrics-unanswered"}
