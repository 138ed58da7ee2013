"""Makes a tiny Llama model: tokenizer and configuration, no weights (vLLM makes them up).

    python make_model.py FOLDER

KV cache of 256 bytes a token. The tokenizer is trained on the standard library's sources, in about a second.
"""

import json
import sys
import sysconfig
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

_MAX_POSITIONS = 40_960
_SOURCES = 120
_CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_model(folder: Path) -> None:
    """Write the model's files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _train()
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(
        folder / "tokenizer_config.json",
        tokenizer_class="PreTrainedTokenizerFast",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=_MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
        chat_template=_CHAT_TEMPLATE,
    )
    _write(
        folder / "config.json",
        architectures=["LlamaForCausalLM"],
        model_type="llama",
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=_MAX_POSITIONS,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        hidden_act="silu",
        tie_word_embeddings=False,
        attention_bias=False,
        mlp_bias=False,
        initializer_range=0.02,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=0,
        torch_dtype="bfloat16",
    )
    _write(folder / "generation_config.json", eos_token_id=2, bos_token_id=0)


def _train() -> Tokenizer:
    """Byte-level BPE with a vocabulary of 4,096."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4096,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:_SOURCES]
    tokenizer.train([str(source) for source in sources], trainer)
    return tokenizer


def _write(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(fields, indent=1))


if __name__ == "__main__":
    make_model(Path(sys.argv[1]))
