"""Block sizes, caps and tiers of the views."""

import pytest

from tests.config.config_texts import config_of, problems_of


def view_of(parameters):
    (view,) = config_of(f"plugins:\n- type: prefix-cache-scorer\n  parameters: {{{parameters}}}\n").views
    return view


def tiers(*scorers):
    """Producer → (tier, rule) for scorers given as (name, parameters)."""
    lines = [f"- {{type: prefix-cache-scorer, name: {name}, parameters: {{{p}}}}}" for name, p in scorers]
    config = config_of("plugins:\n" + "\n".join(lines) + "\n")
    return {view.producer: (view.tier, view.tier_rule) for view in config.views}, config


@pytest.mark.parametrize(
    ("parameters", "block_bytes"),
    [
        ("autoTune: true", 256),
        ("blockSize: 512", 512),
        ("blockSizeTokens: 64", 256),
        ("blockSizeTokens: 128", 512),
        ("blockSize: 512, blockSizeTokens: 128", 512),
    ],
)
def test_a_block_is_given_in_bytes_or_in_tokens_of_four_bytes(parameters, block_bytes):
    assert view_of(parameters).block_bytes == block_bytes


def test_sixteen_tokens_are_a_block_of_64_bytes():
    assert view_of("blockSizeTokens: 16").block_bytes == 64


@pytest.mark.parametrize(
    ("parameters", "max_blocks"),
    [
        ("autoTune: true", 2048),
        ("maxPrefixTokensToMatch: 40000", 625),
        ("maxPrefixTokensToMatch: 40001", 625),
        ("maxPrefixTokensToMatch: 64", 1),
        ("maxPrefixBlocksToMatch: 256", 256),
        ("maxPrefixBlocksToMatch: 5000", 2048),
        ("maxPrefixTokensToMatch: 0, maxPrefixBlocksToMatch: 5000", 5000),
        ("maxPrefixTokensToMatch: 0", None),
        ("maxPrefixTokensToMatch: 0, maxPrefixBlocksToMatch: 0", None),
        ("maxPrefixBlocksToMatch: 0", 2048),
    ],
)
def test_the_smaller_cap_holds_and_zero_is_no_cap(parameters, max_blocks):
    assert view_of(parameters).max_blocks == max_blocks


def test_a_block_larger_than_the_default_cap_is_refused():
    assert problems_of("""\
        plugins:
        - type: prefix-cache-scorer
          parameters:
            blockSizeTokens: 131073
        """) == [
        "plugins[0].parameters.maxPrefixTokensToMatch (line 4): 131072 tokens are less than one block of 524292 bytes, so nothing would be hashed; raise it, or write 0 for no cap"
    ]


@pytest.mark.parametrize(
    ("parameters", "warning"),
    [
        (
            "blockSize: 64",
            "plugins[0].parameters.blockSize: blocks of 64 bytes need up to 31250 index entries (1.3 MB) an endpoint, 4 times as many as the default of 256 bytes; the engine's own block size gains nothing here",
        ),
        (
            "blockSizeTokens: 16, lruCapacityPerServer: 41000",
            "plugins[0].parameters.blockSizeTokens: blocks of 64 bytes need up to 41000 index entries (1.7 MB) an endpoint, 4 times as many as the default of 256 bytes; the engine's own block size gains nothing here",
        ),
    ],
)
def test_tiny_blocks_load_with_a_warning_that_tells_their_memory(parameters, warning):
    config = config_of(f"plugins:\n- type: prefix-cache-scorer\n  parameters: {{{parameters}}}\n")

    assert config.warnings == (warning,)


def test_auto_tuned_views_are_gpu():
    found, _ = tiers(("cpu", "autoTune: true"), ("other", "blockSize: 512"))

    assert found == {"cpu": ("gpu", "autoTune is on"), "other": ("gpu", "autoTune is on")}


def test_a_view_that_is_not_auto_tuned_beside_one_that_is_is_cpu_whatever_the_names():
    found, _ = tiers(
        ("gpu-prefix-cache-scorer", "autoTune: false"), ("cpu-prefix-cache-scorer", "autoTune: true")
    )

    assert found == {
        "gpu-prefix-cache-scorer": ("cpu", "autoTune is off, beside cpu-prefix-cache-scorer where it is on"),
        "cpu-prefix-cache-scorer": ("gpu", "autoTune is on"),
    }


def test_views_none_of_which_is_auto_tuned_are_gpu():
    found, _ = tiers(("a", "autoTune: false"), ("cpu", "autoTune: false"))

    assert found == {
        "a": ("gpu", "autoTune is off, and no other view is auto-tuned"),
        "cpu": ("gpu", "autoTune is off, and no other view is auto-tuned"),
    }


def test_a_written_tier_decides():
    found, config = tiers(("a", "tier: cpu"), ("b", "tier: gpu, autoTune: false"))

    assert found == {"a": ("cpu", "tier: cpu is written"), "b": ("gpu", "tier: gpu is written")}
    assert config.provenance["views[a].tier"] == "line 4"
    assert config.warnings == ()


def test_an_implied_tier_tells_its_rule():
    _, config = tiers(("a", "autoTune: true"))

    assert config.provenance["views[a].tier"] == "implied: autoTune is on"


def test_only_cpu_views_are_a_warning():
    _, config = tiers(("a", "tier: cpu"))

    assert config.warnings == (
        "plugins: every view of the prefix index is of tier cpu, so nothing predicts GPU hits",
    )


def test_values_of_a_view_tell_where_they_stand():
    _, config = tiers(("a", "lruCapacityPerServer: 7"))

    assert config.provenance["views[a]"] == "implied: plugins[0] has index parameters of its own"
    assert config.provenance["views[a].lruCapacityPerServer"] == "line 4"
    assert config.provenance["views[a].autoTune"] == "default"


def test_values_of_the_implied_default_producer_are_defaults():
    config = config_of("plugins:\n- type: prefix-cache-scorer\n")

    assert config.provenance["views[approx-prefix-cache-producer].lruCapacityPerServer"] == "default"
