"""Filters by label: the Kubernetes rules, the older types, and roles."""

import pytest

from epp.scheduling.filters.by_label import ByLabelFilter, ByLabelParameters
from epp.scheduling.filters.label_selector import (
    ByLabelSelectorFilter,
    LabelRequirement,
    LabelSelectorFilter,
    LabelSelectorParameters,
)
from epp.scheduling.filters.role import DecodeFilter, PrefillFilter
from epp.scheduling.registry import NoParameters
from tests.scheduling.builders import context, cycle, labelled

ZONES = labelled({"zone": "a", "gpu": "h100"}, {"zone": "b"}, {"zone": ""}, {})


def kept(plugin, pool):
    return [e.slot for e in plugin.filter(cycle(pool))]


def selected(pool, labels=None, *requirements):
    return kept(
        LabelSelectorFilter.build("f", LabelSelectorParameters(labels, requirements), context()), pool
    )


@pytest.mark.parametrize(
    "operator, values, slots",
    [
        ("In", ("a",), [0]),
        ("In", ("a", "b"), [0, 1]),
        ("In", ("",), [2]),
        ("In", ("c",), []),
        ("NotIn", ("a",), [1, 2, 3]),
        ("NotIn", ("a", "b", ""), [3]),
        ("Exists", (), [0, 1, 2]),
        ("DoesNotExist", (), [3]),
    ],
)
def test_operators_of_kubernetes(operator, values, slots):
    assert selected(ZONES, None, LabelRequirement("zone", operator, values)) == slots


@pytest.mark.parametrize(
    "labels, slots",
    [
        ({}, [0, 1, 2, 3]),
        ({"zone": "a"}, [0]),
        ({"zone": "a", "gpu": "h100"}, [0]),
        ({"zone": "b", "gpu": "h100"}, []),
    ],
)
def test_all_of_match_labels_must_be_there(labels, slots):
    assert selected(ZONES, labels) == slots


def test_labels_and_expressions_must_all_be_met():
    exists = LabelRequirement("gpu", "DoesNotExist")

    assert selected(ZONES, {"zone": "b"}, exists) == [1]
    assert selected(ZONES, {"zone": "a"}, exists) == []
    assert selected(ZONES, None, exists, LabelRequirement("zone", "In", ("b", ""))) == [1, 2]


@pytest.mark.parametrize(
    "requirement, faults",
    [
        (LabelRequirement("k", "In", ("a",)), []),
        (LabelRequirement("k", "Exists"), []),
        (LabelRequirement("k", "In"), [("values", "must not be empty with operator In")]),
        (LabelRequirement("k", "NotIn"), [("values", "must not be empty with operator NotIn")]),
        (LabelRequirement("k", "Exists", ("a",)), [("values", "must be empty with operator Exists")]),
    ],
)
def test_values_belong_to_in_and_not_in(requirement, faults):
    assert [(fault.key, fault.message) for fault in requirement.faults()] == faults


def test_the_same_candidates_are_looked_at_once_and_stay_one_tuple():
    plugin = DecodeFilter.build("f", NoParameters(), context())
    pool = labelled({"llm-d.ai/role": "prefill"}, {})

    assert plugin.filter(cycle(pool)) is plugin.filter(cycle(pool))
    assert plugin.volatility == "snapshot"


@pytest.mark.parametrize(
    "parameters, slots",
    [
        (ByLabelParameters("zone", ("a", "b")), [0, 1]),
        (ByLabelParameters("zone", ("a",), allows_no_label=True), [0, 3]),
        (ByLabelParameters("zone", (), allows_no_label=True), [3]),
    ],
)
def test_by_label_keeps_some_values(parameters, slots):
    assert kept(ByLabelFilter.build("f", parameters, context()), ZONES) == slots
    assert list(parameters.faults()) == []


def test_by_label_must_keep_something():
    (fault,) = ByLabelParameters("zone").faults()

    assert (fault.key, fault.message) == ("validValues", "must not be empty unless allowsNoLabel is true")


def test_the_older_name_selects_the_same():
    plugin = ByLabelSelectorFilter.build("f", LabelSelectorParameters({"zone": "b"}), context())

    assert (plugin.type, plugin.name, kept(plugin, ZONES)) == ("by-label-selector", "f", [1])


ROLES = [
    "decode",
    "prefill",
    "encode",
    "prefill-decode",
    "both",
    "encode-prefill",
    "encode-prefill-decode",
    "other",
]


@pytest.mark.parametrize(
    "plugin, roles",
    [
        (DecodeFilter, ["decode", "prefill-decode", "both", "encode-prefill-decode", None]),
        (PrefillFilter, ["prefill", "prefill-decode", "both", "encode-prefill", "encode-prefill-decode"]),
    ],
)
def test_roles(plugin, roles):
    pool = labelled(*({"llm-d.ai/role": role} for role in ROLES), {})

    found = plugin.build("f", NoParameters(), context()).filter(cycle(pool))

    assert [e.spec.labels.get("llm-d.ai/role") for e in found] == roles
