"""Models and GPUs in figures, and the step times that follow from them.

Bytes and floating-point operations come from a model's `config.json`; what a GPU makes of them are ratios
measured on an H100 with vLLM's kernels (AIConfigurator's public tables), which hold within some 5 % for dense
models and are a first guess for others. `KernelLatency` may be given by measured values instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from epp.engine.latency import KernelLatency

__all__ = ["GPUS", "MODELS", "Gpu", "ModelShape", "kernel_latency", "read_config"]

_MFU: Final = 0.60  # of peak, large matrix products
_ATTENTION_MFU: Final = 0.73
_WEIGHT_BANDWIDTH: Final = 0.81  # of peak, reading weights
_KV_BANDWIDTH: Final = 0.91
_OVERHEAD_S: Final = 0.0012  # a step's scheduling and launches, without offload
_LAYER_COMPUTE_S: Final = 23e-6
_LAYER_DECODE_S: Final = 12.5e-6
_LAYER_TP_S: Final = 16e-6  # two all-reduces of few tokens
_TP_BYTES_PER_S: Final = 300e9  # of an all-reduce of many
_READ_TOKEN_SHARE: Final = 0.42  # of a computed token, while reading weights takes longer
_EXPERT_TOKENS: Final = 32  # a mixture of experts reads those that so many tokens choose


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU: dense 16-bit operations and bytes a second, memory, link to the host (for one GPU)."""

    name: str
    flops: float
    bytes_per_s: float
    memory_bytes: float
    link_bytes_per_s: float


GPUS: Final[Mapping[str, Gpu]] = MappingProxyType(
    {
        "a100": Gpu("a100", 312e12, 2.039e12, 85.0e9, 20e9),
        "h100": Gpu("h100", 989e12, 3.35e12, 85.5e9, 40e9),
        "h200": Gpu("h200", 989e12, 4.8e12, 150.7e9, 40e9),
    }
)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a `config.json` says that matters here.

    Attributes:
        name: of the model.
        layers, hidden, heads, kv_heads, head_dim: as in the file; `head_dim` is what the file says, and
            hidden / heads only where it says nothing.
        kv_layers: layers whose keys and values grow with the context; the others have a sliding window.
        parameters, active_parameters: weights, and those that one token passes.
        weight_bytes: of one weight, on average.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    kv_layers: int
    parameters: float
    active_parameters: float
    weight_bytes: float
    experts: int = 0
    experts_per_token: int = 0

    def kv_bytes_per_token(self, element_bytes: float = 2.0) -> int:
        """Keys and values of one token, over all tensor-parallel ranks."""
        return round(2 * self.kv_layers * self.kv_heads * self.head_dim * element_bytes)


# The fields of the published config.json files.
MODELS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "qwen3-32b": {
            "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 64,
            "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 25600, "vocab_size": 151936,
            "torch_dtype": "bfloat16", "tie_word_embeddings": False,
        },
        "llama-3.1-8b": {
            "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
            "torch_dtype": "bfloat16", "tie_word_embeddings": False,
        },
        "llama-3.1-70b": {
            "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
            "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
            "torch_dtype": "bfloat16", "tie_word_embeddings": False,
        },
        "gpt-oss-120b": {
            "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64,
            "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088,
            "num_local_experts": 128, "num_experts_per_tok": 4, "tie_word_embeddings": False,
            "quantization_config": {"quant_method": "mxfp4"},
            "layer_types": ["sliding_attention", "full_attention"] * 18,
        },
    }
)  # fmt: skip

_DTYPE_BYTES: Final = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0, "float8_e4m3fn": 1.0}
_QUANT_BYTES: Final = {"mxfp4": 0.53, "fp8": 1.0, "awq": 0.55, "gptq": 0.55, "compressed-tensors": 1.0}


def read_config(config: Mapping[str, Any], name: str = "model") -> ModelShape:
    """The shape that a model's `config.json` describes.

    Raises:
        ValueError: a field is missing or is no positive number; the message names it.
    """
    text = config.get("text_config")
    if isinstance(text, Mapping):
        config = {**config, **text}
    layers, hidden = _number(config, "num_hidden_layers"), _number(config, "hidden_size")
    heads = _number(config, "num_attention_heads")
    kv_heads = _number(config, "num_key_value_heads", heads)
    head_dim = _number(config, "head_dim", hidden // heads)
    types = config.get("layer_types")
    full = sum(kind == "full_attention" for kind in types) if isinstance(types, list) else layers
    total, active, experts, chosen = _parameters(config, layers, hidden, heads, kv_heads, head_dim)
    return ModelShape(
        name, layers, hidden, heads, kv_heads, head_dim, full or layers, total, active,
        _weight_bytes(config), experts, chosen,
    )  # fmt: skip


def _number(config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{key} must be a positive integer, got {value!r}")
    return value


def _parameters(
    config: Mapping[str, Any], layers: int, hidden: int, heads: int, kv_heads: int, head_dim: int
) -> tuple[float, float, int, int]:
    """Weights in all, those that every token passes (no embedding, no head), experts, experts a token."""
    experts = _number(config, "num_local_experts", config.get("num_experts") or 1)
    chosen = _number(config, "num_experts_per_tok", 1)
    inner = config.get("moe_intermediate_size") if experts > 1 else None
    expert = 3 * hidden * (inner or _number(config, "intermediate_size"))
    attention = 2 * hidden * head_dim * (heads + kv_heads)
    vocabulary = _number(config, "vocab_size") * hidden
    embeddings = vocabulary * (1 if config.get("tie_word_embeddings") else 2)
    total = layers * (attention + experts * expert) + embeddings
    active = layers * (attention + chosen * expert)
    return float(total), float(active), experts if experts > 1 else 0, chosen if experts > 1 else 0


def _weight_bytes(config: Mapping[str, Any]) -> float:
    quantization = config.get("quantization_config")
    if isinstance(quantization, Mapping):
        return _QUANT_BYTES.get(str(quantization.get("quant_method")), 1.0)
    dtype = config.get("torch_dtype") or config.get("dtype") or "bfloat16"
    return _DTYPE_BYTES.get(str(dtype), 2.0)


# Composed from the kernels' own measurements instead of ratios; seconds.
_MEASURED: Final[Mapping[tuple[str, str, int], KernelLatency]] = MappingProxyType(
    {
        ("qwen3-32b", "h100", 2): KernelLatency(
            overhead_s=_OVERHEAD_S,
            read_s=0.0131,
            read_token_s=0.024e-3,
            compute_s=0.0015,
            compute_token_s=0.0572e-3,
            pair_s=1.456e-9,
            decode_s=0.0008,
            context_s=4.30e-8,
            link_bytes_per_s=40e9,
        )
    }
)


def kernel_latency(shape: ModelShape, gpu: Gpu, tp: int) -> KernelLatency:
    """Step times of the model on `tp` GPUs: measured where they are, else from the ratios above.

    Raises:
        ValueError: `tp` is below 1.
    """
    if tp < 1:
        raise ValueError(f"tp must be at least 1, got {tp}")
    measured = _MEASURED.get((shape.name, gpu.name, tp))
    return measured if measured is not None else _derived(shape, gpu, tp)


def _derived(shape: ModelShape, gpu: Gpu, tp: int) -> KernelLatency:
    read_bytes = _bytes_read(shape)
    token_s = 2 * shape.active_parameters / (tp * gpu.flops * _MFU)
    if tp > 1:
        token_s += 4 * shape.layers * shape.hidden / _TP_BYTES_PER_S
    kv_bytes = shape.kv_bytes_per_token() / min(tp, shape.kv_heads)
    return KernelLatency(
        overhead_s=_OVERHEAD_S,
        read_s=read_bytes / (tp * gpu.bytes_per_s * _WEIGHT_BANDWIDTH)
        + (_LAYER_TP_S * shape.layers if tp > 1 else 0.0),
        read_token_s=_READ_TOKEN_SHARE * token_s,
        compute_s=_LAYER_COMPUTE_S * shape.layers,
        compute_token_s=token_s,
        pair_s=4 * shape.heads * shape.head_dim * shape.kv_layers / (tp * gpu.flops * _ATTENTION_MFU),
        decode_s=_LAYER_DECODE_S * shape.layers,
        context_s=kv_bytes / (gpu.bytes_per_s * _KV_BANDWIDTH),
        link_bytes_per_s=gpu.link_bytes_per_s,
    )


def _bytes_read(shape: ModelShape) -> float:
    """Weights that a decode step reads."""
    if not shape.experts:
        return shape.parameters * shape.weight_bytes
    share = 1 - (1 - shape.experts_per_token / shape.experts) ** _EXPERT_TOKENS
    return shape.parameters * shape.weight_bytes * share
