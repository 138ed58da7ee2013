"""The five exercises print what their texts say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "exercises"


def printed(name):
    program = [sys.executable, str(FOLDER / f"{name}.py"), "--quick"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def column(text, first, number):
    """The last `number`th number of the line that begins with `first`."""
    line = next(line for line in text.splitlines() if line.startswith(first))
    return float(re.findall(r"[-+]?\d[\d,]*\.?\d*", line)[number].replace(",", ""))


def test_the_lesson_compares_at_equal_hbm_and_counts_what_is_avoided():
    text = printed("lesson")
    shares = {
        line.split("  ")[0] + "," + offload: float(re.search(r"(\d+\.\d)%", line)[1])
        for line in text.splitlines()
        for offload in ("none", "native")
        if f" {offload} " in line
    }

    assert shares["random,native"] > shares["random,none"] + 20
    assert shares["predicted cost,none"] > shares["random,none"] + 20


def test_a_tier_pays_where_more_is_wanted_again_than_the_gpu_tiers_hold():
    text = printed("hbm_utilisation")

    assert column(text, "0.28", -1) < 0 < column(text, "1.12", -1)
    assert "A tier pays from about R = 1.12 on" in text


def test_a_tenant_saves_only_what_others_evict():
    text = printed("tenant_saving")

    assert "6,000 tokens take 0.37 s to compute, so 200 hits an hour save at most 74 engine seconds" in text
    assert column(text, "0 ", 2) == 0
    assert column(text, "0.8 ", 2) > 100_000


def test_without_the_shared_server_first_tokens_come_later_and_none_fails():
    text = printed("shared_server_fails")

    lives, dies = (float(re.findall(r"(\d+\.\d+) s", text.split(name)[1])[1]) for name in ("lives", "dies  "))
    assert dies > 1.3 * lives
    assert all(column(text, name, -1) == 0 for name in ("shared, lives", "shared, dies", "native", "no tier"))


def test_a_spinning_disk_is_slower_than_computing_again():
    text = printed("disk")

    assert "llama-3.1-70b, tp 4, fp8" in text
    ratios = [float(number) for number in re.findall(r"\((\d\S*)x\)", text)]
    assert len(ratios) == 12
    assert all(min(ratios[row], ratios[row + 1]) > 8 for row in (0, 4, 8))  # the two disks
    assert all(ratios[row + 3] < 0.1 for row in (0, 4, 8))  # host memory


@pytest.mark.parametrize(("offload", "low", "high"), [("native", 0.5, 2.0), ("lmcache-local", 1.5, 4.0)])
def test_the_constant_work_of_a_connector_is_its_whole_cost_without_reuse(offload, low, high):
    text = printed("hidden_cost")

    assert low < column(text, offload, -2) < high
    assert column(text, offload, -1) == pytest.approx(0.0, abs=0.2)
    assert column(text, "2 ", 0) == 2
