"""What the shipped configurations do with one hot prefix, as docs/configuration.md tells."""

from tests.config.config_texts import ROOT
from tests.config.hot_prefix import shares


def test_the_default_spreads_a_hot_prefix_and_keeps_conversations():
    hottest, kept = shares((ROOT / "config" / "default.yaml").read_text())

    assert 0.25 <= hottest <= 0.30
    assert kept >= 0.95


def test_the_default_keeps_a_hot_prefix_together_while_its_endpoint_is_idle():
    hottest, _ = shares((ROOT / "config" / "default.yaml").read_text(), clients=8, requests=200)

    assert hottest == 1.0


def test_the_guides_weights_send_a_hot_prefix_to_one_endpoint():
    hottest, kept = shares((ROOT / "config" / "tiered-prefix-cpu.yaml").read_text())

    assert (hottest, kept) == (1.0, 1.0)
