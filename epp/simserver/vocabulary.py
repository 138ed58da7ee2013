"""The real tokenizer of the simulated servers, and the words that they answer with."""

from importlib import resources

__all__ = ["Vocabulary"]


class Vocabulary:
    """A byte-level BPE of 8,192 tokens: 3.5 bytes a token in English, 2.8 in Vietnamese, 1.6 in Chinese.

    `words` are tokens that are a space and a lower-case word: texts made of them decode and encode to the
    same tokens, so that an answer sent back as history finds its blocks again.
    """

    def __init__(self) -> None:
        try:
            from tokenizers import Tokenizer  # noqa: PLC0415  optional: everything else works without it
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("simulated servers need the extra: pip install 'epp[sim]'") from error
        data = resources.files("epp.simserver").joinpath("tokenizer.json").read_text(encoding="utf-8")
        self._tokenizer = Tokenizer.from_str(data)
        self.size: int = self._tokenizer.get_vocab_size()
        entries = sorted(self._tokenizer.get_vocab().items(), key=lambda entry: entry[1])
        self.words = tuple(token_id for token, token_id in entries if _is_word(token))
        self._texts: list[str] = self._tokenizer.decode_batch(
            [[token_id] for token_id in range(self.size)], skip_special_tokens=False
        )

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; the markers of the chat template are single tokens."""
        whole = text.encode("utf-8", "replace").decode()
        ids: list[int] = self._tokenizer.encode(whole).ids
        return ids

    def decode(self, token_ids: list[int]) -> str:
        """The text of token ids; ids that the vocabulary lacks give nothing."""
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=False)
        return text

    def text_of(self, token_id: int) -> str:
        """The text of one token that is whole by itself, as those in `words` are."""
        return self._texts[token_id]


def _is_word(token: str) -> bool:
    letters = token.removeprefix("Ġ")
    return (
        len(letters) >= 3
        and letters != token
        and letters.isascii()
        and letters.isalpha()
        and letters.islower()
    )
