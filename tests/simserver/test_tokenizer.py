"""The tokenizer that all servers share, and how its file is made."""

import json
import sys

import pytest

from epp.simserver.train_tokenizer import SPECIAL_TOKENS, main, train
from epp.simserver.vocabulary import Vocabulary

TEXTS = ["the cat sat on the mat", "the dog sat on the cat"] * 3


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary()


def test_the_shipped_file_has_8192_tokens(vocabulary):
    assert vocabulary.size == 8192


def test_markers_of_the_template_are_single_tokens(vocabulary):
    assert vocabulary.encode("<|endoftext|><|im_start|><|im_end|>") == [0, 1, 2]


@pytest.mark.parametrize("text", ["", "naïve café", "日本語", "a\tb\r\n", "\U0001f600", "\x00\x7f"])
def test_every_text_can_be_encoded_and_comes_back(vocabulary, text):
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_words_encode_to_themselves(vocabulary):
    """A text of such words has the tokens it was generated from."""
    words = list(vocabulary.words)

    assert len(words) > 1000
    assert vocabulary.encode(vocabulary.decode(words)) == words
    assert "".join(map(vocabulary.text_of, words)) == vocabulary.decode(words)


def test_unknown_ids_have_no_text(vocabulary):
    assert vocabulary.decode([999_999]) == ""


def test_training_is_deterministic():
    assert train(TEXTS, 280).to_str() == train(TEXTS, 280).to_str()


def test_training_starts_with_the_markers_and_learns_words():
    tokenizer = train(TEXTS, 290)

    assert [tokenizer.id_to_token(position) for position in range(3)] == list(SPECIAL_TOKENS)
    assert tokenizer.encode("the cat sat").tokens == ["the", "Ġcat", "Ġsat"]


def test_the_command_writes_a_file_that_covers_all_three_languages(tmp_path):
    target = tmp_path / "tokenizer.json"

    assert main([str(target)]) == 0
    vocabulary = json.loads(target.read_text())["model"]["vocab"]
    assert len(vocabulary) == 8192
    assert {"Ġthe", "ä½ł", "ĠkhÃ´ng"} <= set(vocabulary)  # noqa: RUF001
    assert target.stat().st_size < 400_000


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install 'epp\[sim\]'"):
        Vocabulary()
