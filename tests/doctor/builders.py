"""Observations from recorded pages and edited variants of them, and configurations."""

import json
import pathlib

from epp.config import Settings, load_config
from epp.config.builtin import builtin_config
from epp.doctor import Answer, examine, read_observation
from epp.endpoints.types import EndpointSpec

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
IDLE = (FIXTURES / "vllm" / "metrics-idle.txt").read_text()
BUSY = (FIXTURES / "vllm" / "metrics-busy.txt").read_text()
SEED = load_config((FIXTURES / "epp-configs" / "a-seed-2025-11.yaml").read_text(), "seed")
DEFAULT = load_config(builtin_config(), "default.yaml")
SETTINGS = Settings()
HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
LOAD_ONLY = load_config(HEAD + "plugins:\n- type: queue-scorer\n- type: kv-cache-utilization-scorer\n")
NO_OFFLOAD = "\n".join(
    line for line in IDLE.splitlines() if "kv_offload_" not in line and "kv_fetch" not in line
)

OK = Answer(200)
REFUSED = Answer(None, fault="[Errno 111] Connect call failed", unreachable=True)
TIMED_OUT = Answer(None, fault="not complete within 5 s")


def view(tier, **parameters):
    """A configuration with one view of the tier, beside a queue scorer."""
    lines = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in parameters.items())
    return load_config(
        HEAD
        + "plugins:\n- type: queue-scorer\n- type: approx-prefix-cache-producer\n  name: held\n  parameters:\n"
        + f"    tier: {tier}\n{lines}"
        + "- type: prefix-cache-scorer\n  parameters:\n    prefixMatchInfoProducerName: held\n"
    )


def models(*names, parent=None, root=None, length=4096):
    """Entries of /v1/models."""
    return [{"id": name, "parent": parent, "root": root, "max_model_len": length} for name in names]


def seen(last=1, page=IDLE, version="0.32.0", listed=None, **answers):
    """The endpoint 10.0.0.`last`; a page is text or an Answer."""
    listed = models("tiny") if listed is None else listed
    given = {
        "health": OK,
        "page": page if isinstance(page, Answer) else Answer(200, page.encode()),
        "models_list": Answer(200, json.dumps({"data": listed}).encode()),
        "version_page": Answer(200, json.dumps({"version": version}).encode()),
    }
    return read_observation(EndpointSpec("http", f"10.0.0.{last}", 8000), **(given | answers))


def edited(page, **labels):
    """The page with other labels of vllm:cache_config_info."""
    lines = page.splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.startswith("vllm:cache_config_info{")]
    for label, value in labels.items():
        before, _, rest = lines[at].partition(f'{label}="')
        assert rest, label
        lines[at] = f'{before}{label}="{value}"{rest[rest.index(chr(34)) + 1 :]}'
    return "\n".join(lines) + "\n"


def without(page, *names):
    """The page without the samples of these metrics."""
    return "\n".join(line for line in page.splitlines() if not line.startswith(names)) + "\n"


def with_tier(page, chunks, blocks_per_chunk=1, tokens=None):
    """The page as vLLM 0.33 writes it once its CPU tier has been used."""
    size = "" if tokens is None else f',cpu_kv_cache_size_tokens="{tokens}"'
    return (
        page
        + f'vllm:kv_offload_config_info{{engine="0",cpu_num_chunks="{chunks}",cpu_blocks_per_chunk="{blocks_per_chunk}"{size}}} 1.0\n'
    )


def found(*pool, config=DEFAULT, settings=SETTINGS):
    """All findings by code; a code that comes twice is a mistake of the test."""
    findings = examine(pool, config, settings)
    by_code = {finding.code: finding for finding in findings}
    assert len(by_code) == len(findings), [finding.code for finding in findings]
    return by_code
