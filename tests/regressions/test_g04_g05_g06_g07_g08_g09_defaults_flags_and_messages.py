"""What was promised and not so.

G04 (LR p1160): the engine's block of 16 tokens multiplied the index. G05 (LR p2123): documented defaults were not in effect.
G06 (PS p426): a missing flag crashed the start. G07 (GIE d6da08a): two ways to the defaults differed. G08 (PS p832, GIE p2363):
the log level had no effect. G09 (LR p1942): a message named a flag that does not exist.
"""

import json
import logging
import re
import tracemalloc

from epp.cli import main
from epp.config import Settings, load_config
from epp.config.builtin import builtin_config
from epp.config.settings import leaves
from epp.observability.logs import configure_logging
from epp.prefix import PrefixIndex
from tests.config.test_settings_load import load, problems

EMPTY = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: prefix-cache-scorer}]\n"


def test_g04_blocks_as_small_as_the_engines_are_warned_of_with_what_they_cost():
    config = load_config(EMPTY.replace("scorer}", "scorer, parameters: {blockSizeTokens: 16}}"))

    [warning] = config.warnings
    assert warning.startswith(
        "plugins[0].parameters.blockSizeTokens: blocks of 64 bytes need up to 31250 index entries (1.3 MB) an endpoint"
    )


def test_g04_a_full_index_takes_no_more_than_is_documented():
    """docs/operations.md: about 45 bytes for each block of an endpoint and tier."""
    tracemalloc.start()
    try:
        index = PrefixIndex()
        view = index.add_view(31_250 * 16)
        for slot in range(4):
            for prompt in range(313):
                first = (slot * 1000 + prompt) << 32
                index.touch(view, slot, range(first, first + 100), 16)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [index.blocks(view, slot) for slot in range(4)] == [31_250] * 4
    assert held / 125_000 < 60


def test_g05_check_prints_the_values_in_effect(tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text(EMPTY)
    assert main(["check", str(file), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["config"]
    [view] = shown["views"]

    assert (view["blockBytes"], view["maxBlocks"], view["tier"]["value"]) == (256, 2048, "gpu")
    assert view["parameters"]["lruCapacityPerServer"] == {"value": 31_250, "from": "default"}
    assert view["parameters"]["maxPrefixTokensToMatch"] == {"value": 131_072, "from": "default"}


def test_g06_nothing_but_an_endpoint_is_needed():
    settings, _, notices = load("--endpoint http://10.0.0.1:8000")

    assert len(settings.endpoint) == 1
    assert notices == ()


def test_g07_both_ways_to_the_defaults_are_equal():
    loaded, sources, _ = load()

    assert loaded == Settings()
    assert set(sources.values()) == {"default"}
    assert load_config(builtin_config()).hash == load_config(builtin_config(), "default.yaml").hash


def test_g08_the_level_holds_for_us_and_for_the_servers_libraries(capsys):
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        for wanted, lines in (("debug", 3), ("error", 0)):
            configure_logging(load(f"--log-level {wanted}")[0].log.level, human=False)
            for name in ("epp.proxy", "uvicorn.error", "asyncio"):
                logging.getLogger(name).debug("hello")
            assert capsys.readouterr().err.count('"hello"') == lines
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def test_g09_every_flag_and_variable_that_a_message_names_exists():
    flags = {leaf.flag for leaf in leaves()} | {leaf.rules.alias for leaf in leaves()}
    found = [
        *problems(
            flags="--port 99999 --upstream-first-byte-timeout x --max-request-bytes 0 --log-level loud"
        ),
        *problems(flags="--health-ejection-time 60s --health-max-ejection-time 5s"),
        *problems(flags="--tls-cert a.pem"),
        *problems(environ={"EPP_PORT": "x", "EPP_SEED": "y"}),
        *problems(flags="--admin-key a --admin-key-file b", files={"b": "c"}),
    ]
    named = {flag for problem in found for flag in re.findall(r"--[a-z][a-z-]+", problem)}

    assert len(found) >= 8
    assert named
    assert named - flags == set()
