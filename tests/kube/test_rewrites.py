"""InferenceModelRewrites as rules."""

import msgspec
import pytest

from epp.discovery.kubernetes.objects import Rewrite
from epp.discovery.kubernetes.rewrites import rules_of
from epp.request import RewriteRule, RewriteTarget

EXACT = [{"model": {"type": "Exact", "value": "m"}}]
TARGETS = [{"modelRewrite": "m-v2"}]


def rules(*specs, name="canary"):
    remarks = []
    objects = [
        msgspec.convert({"metadata": {"name": name}, "spec": {"poolRef": {"name": "llm"}, **spec}}, Rewrite)
        for spec in specs
    ]
    return rules_of(objects, remarks.append), remarks


def one(matches=None, targets=TARGETS):
    return rules({"rules": [{"matches": matches, "targets": targets}]})


def test_a_rule_has_its_models_and_targets():
    matches = [*EXACT, {"model": {"value": "n"}}]
    targets = [{"modelRewrite": "a", "weight": 90}, {"modelRewrite": "b", "weight": 10}]

    assert one(matches, targets) == (
        (RewriteRule(("m", "n"), (RewriteTarget("a", 90), RewriteTarget("b", 10)), "canary"),),
        [],
    )


@pytest.mark.parametrize("matches", [None, []])
def test_a_rule_without_matches_is_for_any_model(matches):
    assert one(matches) == ((RewriteRule((), (RewriteTarget("m-v2", 1),), "canary"),), [])


def test_rules_keep_their_order_within_an_object_and_objects_go_by_age_then_by_name():
    def made(name, created):
        metadata = {"name": name, "creationTimestamp": created}
        spec = {"rules": [{"targets": [{"modelRewrite": f"{name}{n}"}]} for n in (1, 2)]}
        return msgspec.convert({"metadata": metadata, "spec": spec}, Rewrite)

    late, early = "2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"

    found = rules_of([made("a", late), made("c", early), made("b", early)], lambda _: None)

    assert [rule.targets[0].model for rule in found] == ["b1", "b2", "c1", "c2", "a1", "a2"]


def test_targets_without_a_weight_get_nothing_where_others_have_one():
    targets = [{"modelRewrite": "a", "weight": 5}, {"modelRewrite": "b"}, {"modelRewrite": "c", "weight": -1}]

    found, remarks = one(EXACT, targets)

    assert found[0].targets == (RewriteTarget("a", 5), RewriteTarget("b", 0), RewriteTarget("c", 0))
    assert remarks == [
        "rule 0 of InferenceModelRewrite canary gives some targets a weight: those without get no requests"
    ]


@pytest.mark.parametrize("targets", [None, [], [{"modelRewrite": ""}]])
def test_a_rule_without_targets_is_passed_over(targets):
    assert one(EXACT, targets) == (
        (),
        ["rule 0 of InferenceModelRewrite canary has no target and is passed over"],
    )


@pytest.mark.parametrize("odd", [{"model": {"type": "Prefix", "value": "m"}}, {"model": {"value": ""}}, {}])
def test_a_match_that_is_not_exact_matches_nothing_rather_than_everything(odd):
    said = [
        "rule 0 of InferenceModelRewrite canary matches something else than an exact model, which is passed over"
    ]

    assert one([odd]) == ((), said)
    assert one([odd, *EXACT]) == ((RewriteRule(("m",), (RewriteTarget("m-v2", 1),), "canary"),), said)


@pytest.mark.parametrize("spec", [{}, {"rules": None}, {"rules": []}])
def test_an_object_without_rules_has_none(spec):
    assert rules(spec) == ((), [])
