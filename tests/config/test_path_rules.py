"""Rules about paths: how they are written, and which paths they close."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.app.routes import relayed_routes
from epp.config.flags import add_settings_flags
from epp.config.path_rules import PathRule, canonical_path, is_open, parse_path_rules
from epp.config.settings import leaves
from epp.config.settings_load import load_settings
from epp.config.values import show_value
from epp.errors import ConfigError


def test_a_rule_is_a_verb_and_a_pattern_and_shows_as_it_is_written():
    [rule] = parse_path_rules("  deny   /v1/audio/*  ")
    assert rule == PathRule(allow=False, pattern="/v1/audio/*")
    assert str(rule) == "deny /v1/audio/*"


def test_several_rules_stand_with_commas_between_them():
    assert [str(rule) for rule in parse_path_rules("allow /v1/*,deny *")] == ["allow /v1/*", "deny *"]


@pytest.mark.parametrize(
    "text", ["", "deny", "deny ", "block /v1", "deny v1", "/v1", "deny /a b", "allow /a,,deny *", "Deny /a"]
)
def test_anything_else_is_refused_with_the_form(text):
    with pytest.raises(ValueError, match=r"is no rule; write allow or deny, .* such as deny /v1/audio/\*"):
        parse_path_rules(text)


@pytest.mark.parametrize(
    "pattern, path, matches",
    [
        ("/sleep", "/sleep", True),
        ("/sleep", "/sleepy", False),
        ("/sleep", "/Sleep", False),
        ("/v1/*", "/v1/chat/completions", True),
        ("/v1/*", "/v1/", True),
        ("/v1/*", "/v1", False),
        ("/v1/*/completions", "/v1/chat/completions", True),
        ("/v1/*/completions", "/v1/completions", False),
        ("/*/audio/*", "/v1/audio/speech", True),
        ("*", "/anything", True),
        ("/a*a", "/a", False),
        ("/a*a", "/aa", True),
        ("/a*b*c", "/axcxb", False),
        ("/a*b*c", "/axbxc", True),
        ("/v1/[ab]", "/v1/a", False),
        ("/v1/?", "/v1/a", False),
    ],
)
def test_a_star_stands_for_any_characters_and_everything_else_for_itself(pattern, path, matches):
    assert PathRule(allow=True, pattern=pattern).matches(path) is matches


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_matching_agrees_with_trying_every_length_of_every_star(pattern, path):
    def fits(pattern, path):
        if not pattern:
            return not path
        if pattern[0] == "*":
            return any(fits(pattern[1:], path[skipped:]) for skipped in range(len(path) + 1))
        return path[:1] == pattern[0] and fits(pattern[1:], path[1:])

    assert PathRule(allow=True, pattern=pattern).matches(path) is fits(pattern, path)


def test_the_first_rule_that_matches_decides_and_what_none_matches_is_open():
    rules = parse_path_rules("allow /v1/audio/speech, deny /v1/audio/*")
    assert is_open(rules, "/v1/audio/speech")
    assert not is_open(rules, "/v1/audio/transcriptions")
    assert is_open(rules, "/v1/chat/completions")
    assert is_open((), "/anything")


@pytest.mark.parametrize(
    "path", ["/v1/./audio/x", "/v1//audio/x", "/v1/chat/../audio/x", "//v1/audio/x", "/v1/audio/x/"]
)
def test_another_spelling_opens_nothing(path):
    assert not is_open(parse_path_rules("deny /v1/audio/x"), path)
    assert not is_open(parse_path_rules("allow /v1/chat/*, deny *"), path)


@pytest.mark.parametrize(
    "path, plain",
    [
        ("/", "/"),
        ("", "/"),
        ("/a/", "/a"),
        ("//a", "/a"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/../..", "/"),
        ("*", "/*"),
    ],
)
def test_the_canonical_form_has_no_empty_and_no_dot_segments(path, plain):
    assert canonical_path(path) == plain


def test_closed_routes_are_not_listed():
    paths = {route.path for route in relayed_routes(parse_path_rules("deny /v1/audio/*"))}
    assert "/v1/chat/completions" in paths
    assert not any(path.startswith("/v1/audio/") for path in paths)


def loaded(flags=(), environ=None, file=""):
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)
    arguments = parser.parse_args([*(["--settings", "s.yaml"] if file else []), *flags])
    settings, _, _ = load_settings(arguments, environ or {}, lambda _: file)
    [leaf] = [leaf for leaf in leaves() if leaf.path == "pathRules"]
    return show_value(leaf, settings.path_rules)


def test_rules_come_from_a_repeated_flag_a_variable_or_the_file():
    assert loaded(["--path-rules", "allow /v1/*", "--path-rules", "deny *"]) == "allow /v1/*, deny *"
    assert loaded(environ={"EPP_PATH_RULES": "allow /v1/*, deny *"}) == "allow /v1/*, deny *"
    assert loaded(file="pathRules:\n- allow /v1/*\n- deny *\n") == "allow /v1/*, deny *"
    assert loaded(file="pathRules: deny /v1/audio/*\n") == "deny /v1/audio/*"
    assert loaded() == "all are relayed"


def test_a_rule_that_is_none_is_named_with_its_line():
    with pytest.raises(ConfigError) as caught:
        loaded(file="pathRules:\n- allow /v1/*\n- block *\n- {a: b}\n")
    first, second = caught.value.problems
    assert (first.path, first.line) == ("s.yaml: pathRules[1]", 3)
    assert first.message.startswith("'block *' is no rule")
    assert second.path == "s.yaml: pathRules[2]"
