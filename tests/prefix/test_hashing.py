"""Seeds and chains of block hashes. Golden values were computed with xxHash directly, block by block."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from epp.prefix import chain_seed, drain, hash_chain

ALPHABETS = b"abcdefghijklmnopqrstuvwxyz" * 10
MODEL_SEED = 0x338E51E9E670B749


@pytest.mark.parametrize(
    ("fields", "seed"),
    [
        ((), 0x2D06800538D394C2),
        (("Qwen/Qwen3-32B",), MODEL_SEED),
        (("m", "", "", "text"), 0xEBCB220FB4FA6EEE),
        (("m", "", "", "ids"), 0x2F2A62435CFEE83D),
        (("ab", "c"), 0x642D4DEBFEBF33AE),
        (("a", "bc"), 0xF42EE0DF2A023EF1),
        (("a\0b",), 0x30285A01B9A2FF71),
        (("\ud800",), 0x28AED4A1705CD33F),
    ],
)
def test_seed_golden_values(fields, seed):
    assert chain_seed(*fields) == seed


def test_f03_f04_model_adapter_and_salt_are_separate_fields_of_the_seed():
    seeds = {
        chain_seed("base", "", ""),
        chain_seed("base", "lora-1", ""),
        chain_seed("base", "lora-2", ""),
        chain_seed("base", "", "A"),
        chain_seed("base", "", "B"),
        chain_seed("base", "A", ""),
        chain_seed("baseA", "", ""),
    }

    assert len(seeds) == 7


@settings(deadline=None)
@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_different_fields_give_different_seeds(fields, others):
    assert (chain_seed(*fields) == chain_seed(*others)) == (fields == others)


@pytest.mark.parametrize(
    ("seed", "block_bytes", "max_blocks", "chain"),
    [
        (
            MODEL_SEED,
            64,
            None,
            [0xE8E71B52A104489A, 0x216E011F3F67F5CC, 0xCCCE9FD8F79CBF0C, 0x365B303BB6099AC6],
        ),
        (MODEL_SEED, 64, 4, [0xE8E71B52A104489A, 0x216E011F3F67F5CC, 0xCCCE9FD8F79CBF0C, 0x365B303BB6099AC6]),
        (MODEL_SEED, 64, 3, [0xE8E71B52A104489A, 0x216E011F3F67F5CC, 0xCCCE9FD8F79CBF0C]),
        (MODEL_SEED, 256, None, [0x2681609613CAB142]),
        (0, 4, 2, [0x6497A96F53A89890, 0xBAD0708DDE8BABA2]),
        (MODEL_SEED, 64, 0, []),
        (MODEL_SEED, 260, 9, [0xF84ADA271685E571]),
        (MODEL_SEED, 261, None, []),
    ],
)
def test_chain_golden_values(seed, block_bytes, max_blocks, chain):
    assert drain(hash_chain(ALPHABETS, seed, block_bytes, max_blocks)) == chain


def test_a_prompt_shorter_than_a_block_has_no_hashes():
    assert drain(hash_chain(b"", 1, 256, None)) == []
    assert drain(hash_chain(b"x" * 255, 1, 256, None)) == []


@settings(deadline=None)
@given(st.binary(max_size=80), st.binary(max_size=80), st.integers(1, 9), st.integers(0, 5))
def test_appending_keeps_the_hashes_of_all_full_blocks(data, more, block_bytes, seed):
    chain = drain(hash_chain(data, seed, block_bytes, None))
    longer = drain(hash_chain(data + more, seed, block_bytes, None))

    assert len(chain) == len(data) // block_bytes
    assert longer[: len(chain)] == chain


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=60), st.integers(0, 59), st.integers(1, 255), st.integers(1, 7))
def test_a_changed_byte_changes_its_block_and_every_later_one_and_none_before(data, place, flip, block_bytes):
    place %= len(data)
    changed = bytes(byte ^ flip if at == place else byte for at, byte in enumerate(data))
    chain = drain(hash_chain(data, 3, block_bytes, None))
    other = drain(hash_chain(changed, 3, block_bytes, None))
    block = place // block_bytes

    assert chain[:block] == other[:block]
    assert not set(chain[block:]) & set(other[block:])


def test_a_flipped_bit_flips_about_half_of_the_bits_of_every_hash_from_there_on():
    data = bytes(64 * 40)
    chain = drain(hash_chain(data, 5, 64, None))
    for bit in range(0, 512, 7):
        flipped = (1 << bit).to_bytes(64, "little") + data[64:]
        other = drain(hash_chain(flipped, 5, 64, None))
        distances = [(ours ^ theirs).bit_count() for ours, theirs in zip(chain, other, strict=True)]

        assert min(distances) >= 10
        assert 28 <= sum(distances) / len(distances) <= 36


@pytest.mark.parametrize(
    ("size", "block_bytes", "max_blocks", "yields"),
    [
        (1 << 20, 256, None, 0),
        ((1 << 20) + 255, 256, None, 0),
        ((1 << 20) + 256, 256, None, 1),
        (5 << 20, 256, None, 4),
        (5 << 20, 256, 4096, 0),
        (5 << 20, 256, 4097, 1),
        (1 << 20, 16, None, 7),  # small blocks: 8,192 a step
        (5 << 20, 2 << 20, None, 1),  # a block larger than a step is a step
    ],
)
def test_it_yields_between_steps_of_a_mebibyte(size, block_bytes, max_blocks, yields):
    assert len(list(hash_chain(bytes(size), 1, block_bytes, max_blocks))) == yields


def test_steps_do_not_change_the_chain():
    data = ALPHABETS * 9000
    whole = drain(hash_chain(data, 7, 1000, None))

    assert len(whole) == 2340
    assert whole[:900] == drain(hash_chain(data[:900_000], 7, 1000, None))
    assert len(set(whole)) == 2340


@pytest.mark.parametrize("count", [127, 128, 129, 300])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_each_hash_is_the_seed_of_the_next_however_many_there_are(count, kind):
    data = kind(ALPHABETS * 5)[: count * 4]
    expected, last = [], 7
    for start in range(0, count * 4, 4):
        last = xxh3_64_intdigest(data[start : start + 4], last)
        expected.append(last)

    assert drain(hash_chain(data, 7, 4, None)) == expected


@pytest.mark.parametrize(
    ("block_bytes", "max_blocks", "message"),
    [
        (0, None, "block_bytes must be at least 1, got 0"),
        (-256, None, "block_bytes must be at least 1, got -256"),
        (256, -1, "max_blocks must be at least 0 or None, got -1"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(block_bytes, max_blocks, message):
    with pytest.raises(ValueError, match=message):
        drain(hash_chain(b"x" * 300, 1, block_bytes, max_blocks))


def test_drain_runs_a_generator_to_its_result():
    def steps():
        yield
        yield
        return 42

    assert drain(steps()) == 42
