"""Exercise 4: 500 MB of KV cache on a spinning disk, or compute it again?

python examples/exercises/disk.py [--quick]
"""

from common import GPUS, MODELS, kernel_latency, read_config, say, table

from epp.engine import StepLoad

SIZE, SEEK_S = 500e6, 0.010
DEVICES = {
    "disk, 150 MB/s": 150e6,
    "disk, 250 MB/s": 250e6,
    "NVMe, 5 GB/s": 5e9,
    "host memory, 80 GB/s": 80e9,
}
MODELS_HERE = (("qwen3-32b", 2, 2.0), ("llama-3.1-70b", 4, 1.0), ("llama-3.1-8b", 1, 2.0))


def prefill_s(latency, tokens: int, budget: int = 8_192) -> float:
    seconds, done = 0.0, 0
    while done < tokens:
        chunk = min(budget, tokens - done)
        seconds += latency.step_s(StepLoad(chunk, chunk * (done + chunk / 2), 0, 0))
        done += chunk
    return seconds


def main() -> None:
    rows = []
    for name, tp, element in MODELS_HERE:
        shape = read_config(MODELS[name], name)
        tokens = round(SIZE / shape.kv_bytes_per_token(element))
        again_s = prefill_s(kernel_latency(shape, GPUS["h100"], tp), tokens)
        loads = [(SEEK_S if "disk" in device else 0.0) + SIZE / speed for device, speed in DEVICES.items()]
        rows.append(
            (
                f"{name}, tp {tp}, {'fp8' if element == 1 else 'bf16'}", f"{tokens:,}", f"{again_s:.2f} s",
                *(f"{load_s:.3f} s ({load_s / again_s:.2g}x)" for load_s in loads),
                f"{SIZE / again_s / 1e9:.1f} GB/s",
            )
        )  # fmt: skip
    say(
        "500 MB of KV cache: how long reading takes, and how that compares with computing it on H100",
        "",
        table(("model", "tokens", "computed in", *DEVICES, "break-even"), rows),
        "",
        "A spinning disk loses against the GPU for each of them; below break-even, compute again.",
    )


if __name__ == "__main__":
    main()
