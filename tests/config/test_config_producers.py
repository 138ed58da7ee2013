"""Who reads which prefix producer."""

import re

import pytest

from epp.config.effective import parameter_values
from epp.config.producers import READ_EVERY_VIEW
from tests.config.config_texts import ROOT, config_of, problems_of


def reads(config):
    values = {plugin.name: parameter_values(plugin.parameters) for plugin in config.plugins}
    key = "prefixMatchInfoProducerName"
    return {name: parameters[key] for name, parameters in values.items() if key in parameters}


def producers(config):
    return {view.producer: view.origin for view in config.views}


def test_a_scorer_without_index_parameters_reads_the_default_producer():
    config = config_of("""\
        plugins:
        - type: prefix-cache-scorer
          name: scorer
        """)

    assert reads(config) == {"scorer": "approx-prefix-cache-producer"}
    assert producers(config) == {"approx-prefix-cache-producer": "implied: read by scorer"}
    assert (
        config.provenance["plugins[0].parameters.prefixMatchInfoProducerName"]
        == "implied: it names no producer"
    )


def test_a_parameter_that_is_not_of_the_index_gives_no_view_of_its_own():
    config = config_of("""\
        plugins:
        - type: prefix-cache-scorer
          name: scorer
          parameters: {matchLengthWeight: 0.5}
        """)

    assert reads(config) == {"scorer": "approx-prefix-cache-producer"}


@pytest.mark.parametrize(
    "parameter",
    [
        "autoTune: true", "blockSize: 256", "blockSizeTokens: 64", "maxPrefixBlocksToMatch: 0",
        "maxPrefixTokensToMatch: 0", "lruCapacityPerServer: 31250", "tier: gpu",
    ],
)  # fmt: skip
def test_any_index_parameter_even_with_its_default_gives_a_scorer_a_view_of_its_own(parameter):
    config = config_of(f"""\
        plugins:
        - type: prefix-cache-scorer
          name: scorer
          parameters: {{{parameter}}}
        """)

    assert reads(config) == {"scorer": "scorer"}
    assert producers(config) == {"scorer": "implied: plugins[0] has index parameters of its own"}
    assert (
        config.provenance["plugins[0].parameters.prefixMatchInfoProducerName"]
        == "implied: it has index parameters of its own"
    )


def test_a_declared_producer_of_the_default_name_is_the_default_producer():
    config = config_of("""\
        plugins:
        - type: prefix-cache-scorer
        - type: approx-prefix-cache-producer
          parameters: {lruCapacityPerServer: 7}
        """)

    assert reads(config) == {"prefix-cache-scorer": "approx-prefix-cache-producer"}
    assert producers(config) == {"approx-prefix-cache-producer": "line 5"}
    assert config.views[0].capacity_blocks == 7


def test_the_default_producer_may_be_named_without_being_declared():
    config = config_of("""\
        plugins:
        - type: prefix-cache-scorer
          parameters: {prefixMatchInfoProducerName: approx-prefix-cache-producer}
        """)

    assert producers(config) == {"approx-prefix-cache-producer": "implied: read by prefix-cache-scorer"}


def test_a_scorer_may_read_the_view_of_another_scorer():
    config = config_of("""\
        plugins:
        - type: prefix-cache-scorer
          name: reader
          parameters: {prefixMatchInfoProducerName: owner}
        - type: prefix-cache-scorer
          name: owner
          parameters: {lruCapacityPerServer: 7}
        """)

    assert reads(config) == {"reader": "owner", "owner": "owner"}
    assert list(producers(config)) == ["owner"]


def test_an_empty_producer_name_names_none():
    config = config_of("""\
        plugins:
        - type: prefix-cache-scorer
          parameters: {prefixMatchInfoProducerName: ""}
        """)

    assert reads(config) == {"prefix-cache-scorer": "approx-prefix-cache-producer"}


def test_no_hit_lru_that_names_no_producer_reads_all_there_are():
    config = config_of("""\
        plugins:
        - type: no-hit-lru-scorer
        - type: approx-prefix-cache-producer
          name: only
        """)

    assert reads(config) == {"no-hit-lru-scorer": None}
    assert list(producers(config)) == ["only"]
    assert config.warnings == ()


def test_no_hit_lru_alone_gets_the_default_producer():
    config = config_of("plugins:\n- type: no-hit-lru-scorer\n")

    assert reads(config) == {"no-hit-lru-scorer": None}
    assert producers(config) == {"approx-prefix-cache-producer": "implied: read by no-hit-lru-scorer"}


def test_no_hit_lru_may_name_a_producer():
    config = config_of("""\
        plugins:
        - type: no-hit-lru-scorer
          parameters: {prefixMatchInfoProducerName: one}
        - type: approx-prefix-cache-producer
          name: one
        """)

    assert reads(config) == {"no-hit-lru-scorer": "one"}


def test_without_a_reader_there_is_no_producer():
    assert config_of("plugins:\n- type: queue-scorer\n").views == ()


def test_a_producer_that_nobody_reads_is_kept_with_a_warning():
    config = config_of("""\
        plugins:
        - type: queue-scorer
        - type: approx-prefix-cache-producer
          name: idle
        """)

    assert list(producers(config)) == ["idle"]
    assert config.warnings == ("plugins[1]: no scorer reads the producer 'idle'",)


def test_a_plugin_of_another_type_cannot_be_read():
    assert problems_of("""\
        plugins:
        - type: queue-scorer
        - type: prefix-cache-scorer
          parameters: {prefixMatchInfoProducerName: queue-scorer}
        """) == [
        "plugins[1].parameters.prefixMatchInfoProducerName (line 6): reference to undefined producer 'queue-scorer'; declare an approx-prefix-cache-producer so named; producers here: none"
    ]


def test_a_producer_with_faults_of_its_own_is_not_reported_as_missing():
    assert problems_of("""\
        plugins:
        - type: approx-prefix-cache-producer
          name: faulty
          parameters: {lruCapacityPerServer: 0}
        - type: prefix-cache-scorer
          parameters: {prefixMatchInfoProducerName: faulty}
        """) == [
        "plugins[0].parameters.lruCapacityPerServer (line 6): must be greater than 0, not 0; leave it out for the default (31250)"
    ]


def test_a_default_producer_with_faults_is_not_implied_again():
    assert problems_of("""\
        plugins:
        - type: approx-prefix-cache-producer
          parameters: {lruCapacityPerServer: 0}
        - type: prefix-cache-scorer
        """) == [
        "plugins[0].parameters.lruCapacityPerServer (line 5): must be greater than 0, not 0; leave it out for the default (31250)"
    ]


def test_the_name_of_the_default_producer_cannot_be_given_to_another_plugin():
    assert problems_of("""\
        plugins:
        - type: queue-scorer
          name: approx-prefix-cache-producer
        - type: prefix-cache-scorer
        """) == [
        "plugins[0].name (line 4): the name 'approx-prefix-cache-producer' belongs to the default producer, which prefix-cache-scorer reads; rename this plugin"
    ]


@pytest.mark.parametrize("kind", sorted(READ_EVERY_VIEW))
def test_what_reads_every_view_reads_those_that_are_declared(kind):
    config = config_of(f"""\
        plugins:
        - type: {kind}
        - type: queue-scorer
        - type: approx-prefix-cache-producer
          name: gpu
        """)

    assert list(producers(config)) == ["gpu"]
    assert config.warnings == ()


def test_every_type_that_reads_every_view_is_known_as_one():
    """Those whose modules ask for the matches of all views."""
    folder = ROOT / "epp" / "scheduling"
    modules = [*folder.glob("scorers/*.py"), *folder.glob("filters/*.py")]
    texts = [text for module in modules if "held_tokens(cycle" in (text := module.read_text())]

    assert {re.search(r'type: ClassVar\[str\] = "([^"]+)"', text)[1] for text in texts} == READ_EVERY_VIEW
