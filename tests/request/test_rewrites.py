"""Rules that send requests to another model."""

import random
from collections import Counter

import pytest

from epp.request import ModelRewrites, Rewrite, RewriteRule, RewriteTarget


def rule(models, *targets, source="settings"):
    return RewriteRule(tuple(models), tuple(RewriteTarget(*target) for target in targets), source)


def never():
    raise AssertionError("one target needs no chance")


def test_without_rules_nothing_is_active():
    rules = ModelRewrites()

    assert not rules.active
    assert rules.choose("m", never) is None


def test_a_rule_counts_for_its_models_alone():
    rules = ModelRewrites([rule(["m", "n"], ("m-v2",))])

    assert rules.active
    assert rules.choose("m", never) == Rewrite("m", "m-v2", "settings")
    assert rules.choose("n", never) == Rewrite("n", "m-v2", "settings")
    assert rules.choose("M", never) is None
    assert rules.choose(None, never) is None


def test_a_rule_for_any_model_takes_requests_without_one_too():
    rules = ModelRewrites([rule([], ("base",))])

    assert rules.choose("m", never) == Rewrite("m", "base", "settings")
    assert rules.choose(None, never) == Rewrite(None, "base", "settings")


def test_an_exact_match_goes_before_one_for_any_model_wherever_it_stands():
    rules = ModelRewrites([rule([], ("any",))])
    rules.use_found([rule(["m"], ("exact",), source="found")])

    assert rules.choose("m", never) == Rewrite("m", "exact", "found")
    assert rules.choose("n", never) == Rewrite("n", "any", "settings")


def test_among_equals_given_ones_go_first_and_then_the_first_found():
    rules = ModelRewrites([rule(["m"], ("given",))])
    found = [
        rule(["m", "n"], ("older",), source="older"),
        rule(["n", "o"], ("younger",), source="younger"),
        rule([], ("any-1",), source="older"),
        rule([], ("any-2",), source="younger"),
    ]
    rules.use_found(found)

    chosen = {model: rules.choose(model, never).target for model in ("m", "n", "o", "p")}

    assert chosen == {"m": "given", "n": "older", "o": "younger", "p": "any-1"}


def test_found_rules_take_the_place_of_those_before():
    rules = ModelRewrites()
    rules.use_found([rule(["m"], ("a",))])
    rules.use_found([rule(["n"], ("b",))])

    assert rules.choose("m", never) is None
    assert rules.names == {"n", "b"}

    rules.use_found([])

    assert not rules.active
    assert rules.names == set()


@pytest.mark.parametrize(
    ("drawn", "target"), [(0.0, "a"), (0.0999, "a"), (0.1, "b"), (0.5, "b"), (0.7, "c"), (0.999999, "c")]
)
def test_targets_are_drawn_by_their_weights(drawn, target):
    split = rule(["m"], ("a", 10), ("b", 60), ("zero", 0), ("c", 30))

    assert split.choose(lambda: drawn) == target


def test_targets_without_any_weight_get_equal_parts():
    split = rule(["m"], ("a", 0), ("b", 0))

    drawn = iter([0.0, 0.49, 0.5, 0.999999])
    assert [split.choose(lambda: next(drawn)) for _ in range(4)] == ["a", "a", "b", "b"]


def test_many_requests_come_out_as_the_weights_say():
    chance = random.Random(5)
    split = rule(["m"], ("a", 1), ("b", 3))

    drawn = Counter(split.choose(chance.random) for _ in range(4000))

    assert 900 < drawn["a"] < 1100
