"""How the engine was started: data parallelism, version traps, and what a completion showed."""

from collections.abc import Iterator

from epp.config.effective import EffectiveConfig
from epp.doctor.finding import Finding, finding
from epp.doctor.needs import views_of
from epp.doctor.observation import Observation
from epp.doctor.offload import offloading_gib

__all__ = ["check_engine"]


def check_engine(seen: Observation, config: EffectiveConfig) -> Iterator[Finding]:
    """Everything that an operator changes by a flag of the engine or by an upgrade."""
    yield from _data_parallel(seen, config)
    yield from _offload_flag(seen)
    if views_of(config, "cpu"):
        yield from _cpu_traps(seen)
    yield from _probe(seen)


def _data_parallel(seen: Observation, config: EffectiveConfig) -> Iterator[Finding]:
    engines = seen.metrics.engines if seen.metrics else None
    if not engines or engines < 2 or not config.views:
        return
    yield finding(
        "data-parallel",
        seen.address,
        f"{engines} engines on one page",
        f"each has a cache of its own and vLLM balances among them blindly: of the predicted hits "
        f"{engines - 1} of {engines} are lost",
        "give each rank a port (--data-parallel-external-lb, or --data-parallel-multi-port-external-lb) and "
        "list each as an --endpoint, or let clients send X-data-parallel-rank",
    )


def _offload_flag(seen: Observation) -> Iterator[Finding]:
    gib = offloading_gib(seen)
    native = seen.cache_config.get("kv_offloading_backend", "native") == "native"
    if gib is None or not native or seen.at_least(0, 14) or not seen.at_least(0, 11, 1):
        return
    yield finding(
        "offload-flag-unusable",
        seen.address,
        f"vLLM {seen.version_text} with kv_offloading_size={gib:g}",
        "in 0.11.1 to 0.13 the flag asks for a CPU tier of 0 blocks, which the native connector refuses",
        'upgrade to 0.14, or use --kv-transfer-config with the OffloadingConnector and its "num_cpu_blocks"',
    )


def _cpu_traps(seen: Observation) -> Iterator[Finding]:
    if seen.older_than(0, 11, 1):
        yield finding(
            "external-hits-untold",
            seen.address,
            f"vLLM {seen.version_text}",
            "vllm:external_prefix_cache_hits_total came with 0.11.1: hits predicted in the CPU tier cannot "
            "be compared with real ones",
            "upgrade vLLM to 0.11.1 or newer",
        )
    if seen.older_than(0, 23):
        yield finding(
            "answers-offloaded",
            seen.address,
            f"vLLM {seen.version_text}",
            "before 0.23 generated tokens are offloaded too, so the tier holds fewer prompts than its size "
            "says",
            "upgrade vLLM to 0.23 or newer (offload_prompt_only), or write a smaller lruCapacityPerServer",
        )


def _probe(seen: Observation) -> Iterator[Finding]:
    if seen.probe is None:
        return
    if not seen.probe.ok:
        yield finding(
            "probe-failed",
            seen.address,
            seen.probe.shown("/v1/completions"),
            "requests that are routed here may fail like this one",
            "set endpointKey if it is 401; 404 is right for a model that only pools or embeds",
        )
    elif not seen.tells_cached_tokens:
        yield finding(
            "prompt-details-off",
            seen.address,
            "usage.prompt_tokens_details is null",
            "predicted hits cannot be compared with real ones, request by request",
            "start vLLM with --enable-prompt-tokens-details",
        )
