"""Every target on its corpus, on the corpus bent and spliced at random, and on any bytes at all."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
SEEDS = {name: [file.read_bytes() for file in sorted((CORPUS / name).iterdir())] for name in TARGETS}
CASES = [(name, file.name) for name in TARGETS for file in sorted((CORPUS / name).iterdir())]

# What parsers stumble over, wherever it is put.
PIECES = [
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\r", b"\n", b"\r\n\r\n", b"{", b"}", b"[" * 50, b'"', b"\\ud800", b"null",
    b"true", b"1e999", b"-1", b"NaN", b"9" * 30, b"data: ", b": ", b"0\r\n", b"&a *a", b"!!python/object:os.system",
    b"{{", b"---\n", b"\t", b" " * 40, b'"model":"x"', b'"mod\\u0065l":', b"\n\ndata:",
]  # fmt: skip


@st.composite
def bent(draw, seeds):
    """A file of the corpus with some changes."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 4))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 40)))
        new = draw(
            st.sampled_from(PIECES) | st.binary(max_size=4) | st.sampled_from(seeds).map(lambda s: s[:200])
        )
        data = data[:begin] + new + data[end:]
    return data


@pytest.mark.parametrize(("name", "file"), CASES)
def test_the_corpus_breaks_nothing(name, file):
    TARGETS[name]((CORPUS / name / file).read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_bent_input_breaks_nothing(name):
    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=bent(SEEDS[name]) | st.binary(max_size=300))
    def check(data):
        TARGETS[name](data)

    check()


def test_the_corpora_are_small():
    assert all(len(files) >= 3 for files in SEEDS.values())
    assert sum(len(data) for files in SEEDS.values() for data in files) < 100_000


def test_a_fault_of_the_product_is_a_fault_of_its_target(monkeypatch):
    monkeypatch.setattr("tests.fuzz.targets.read_request", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        TARGETS["body"](b"\x00\x00{}")
