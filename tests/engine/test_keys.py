"""Block keys identify everything before them and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epp.engine import block_keys, chain_seed

ROOT = Path(__file__).parents[2]
TOKENS = st.lists(st.integers(0, 3), max_size=40)


def test_a_partial_tail_has_no_key():
    assert len(block_keys(range(47), 16)) == 2


def test_a_prompt_shorter_than_a_block_has_no_keys():
    assert block_keys(range(15), 16) == ()


def test_appending_tokens_keeps_earlier_keys():
    short = block_keys(range(32), 16)
    long = block_keys(range(64), 16)

    assert long[:2] == short


def test_a_change_in_the_first_block_changes_every_key():
    left = block_keys([0, *range(1, 64)], 16)
    right = block_keys([9, *range(1, 64)], 16)

    assert not set(left) & set(right)


def test_the_seed_separates_chains():
    assert not set(block_keys(range(64), 16, 1)) & set(block_keys(range(64), 16, 2))


@settings(deadline=None)
@given(TOKENS, TOKENS, st.integers(1, 4))
def test_keys_are_equal_exactly_where_whole_prefixes_are(left, right, size):
    left_keys, right_keys = block_keys(left, size), block_keys(right, size)

    for index, (left_key, right_key) in enumerate(zip(left_keys, right_keys, strict=False)):
        same_prefix = left[: (index + 1) * size] == right[: (index + 1) * size]
        assert (left_key == right_key) == same_prefix


@pytest.mark.parametrize("seed", ["0", "77"])
def test_keys_do_not_depend_on_the_process(seed):
    script = (
        "from epp.engine import block_keys, chain_seed; print(block_keys(range(4), 2), chain_seed('a', 'b'))"
    )
    output = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        cwd=ROOT,
    ).stdout.decode()

    assert output == f"{block_keys(range(4), 2)} {chain_seed('a', 'b')}\n"


def test_fields_of_a_seed_do_not_run_into_each_other():
    assert len({chain_seed("ab", ""), chain_seed("a", "b"), chain_seed("", "ab"), chain_seed()}) == 4
