"""Small fleets and workloads."""

from epp.engine import KernelLatency
from epp.simulate.fleet import Fleet, Offload
from epp.simulate.shared_prefix import SharedPrefix, closed_loop

LATENCY = KernelLatency(
    overhead_s=0.001,
    read_s=0.010,
    read_token_s=0.0,
    compute_s=0.001,
    compute_token_s=0.00005,
    pair_s=1e-9,
    decode_s=0.001,
    context_s=4e-8,
)


def fleet(offload=Offload.NONE, **fields):
    defaults = {
        "engines": 3,
        "gpu_tokens": 12_800,
        "cpu_tokens": 64_000,
        "latency": LATENCY,
        "kv_bytes_per_token": 131_072,
        "offload": offload,
    }
    return Fleet(**(defaults | fields))


def shared_prefix(requests=60, seed=1, **fields):
    defaults = {
        "num_groups": 6,
        "num_prompts_per_group": 3,
        "system_prompt_len": 2_000,
        "question_len": 100,
        "output_len": 80,
    }
    return closed_loop(SharedPrefix(**(defaults | fields)), requests=requests, concurrency=12, seed=seed)
