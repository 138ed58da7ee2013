"""Makes `tokenizer.json`: `python -m epp.simserver.train_tokenizer [FILE]`.

Byte-level BPE on the standard library's own text (code, and the prose of `pydoc_data`) and on the small
corpus beside this file, in English, Vietnamese and Chinese. The result depends on the Python that runs it
(the committed file was made by 3.11), so every server loads the file and none trains.
"""

import json
import pydoc
import sys
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

__all__ = ["SPECIAL_TOKENS", "main", "train"]

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 8192
LANGUAGE_REPEATS = 40
"""The corpus is small; repeated, its words weigh as much as those of the standard library."""


def train(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE tokenizer of at most `vocabulary` tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(list(texts), trainer)
    return tokenizer


def _texts() -> Iterator[str]:
    library = Path(pydoc.__file__).parent
    for path in sorted(library.glob("*.py")):
        yield path.read_text(encoding="utf-8")
    yield (library / "pydoc_data" / "topics.py").read_text(encoding="utf-8")
    corpus = json.loads(resources.files("epp.simserver").joinpath("corpus.json").read_text(encoding="utf-8"))
    for paragraphs in corpus.values():
        for _ in range(LANGUAGE_REPEATS):
            yield from paragraphs


def main(argv: list[str]) -> int:
    """Train and write to the file named in `argv`, else to the package's own."""
    target = Path(argv[0]) if argv else Path(__file__).with_name("tokenizer.json")
    content = json.loads(train(_texts(), VOCABULARY).to_str())
    target.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
