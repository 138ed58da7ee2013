"""The setting `modelRewrite`."""

import pytest

from epp.config.model_rewrites import ModelRewrite
from epp.config.settings import leaves
from epp.config.values import show_value
from tests.config.test_settings_load import file, load, problems

SPLIT = (
    ModelRewrite("chat", (("chat-v2", 1),)),
    ModelRewrite("mix", (("v1", 90), ("v2", 10))),
    ModelRewrite("*", (("base", 1),)),
)


@pytest.mark.parametrize(
    "given",
    [
        {"flags": "--model-rewrite chat=chat-v2 --model-rewrite mix=90*v1,10*v2 --model-rewrite *=base"},
        {"environ": {"EPP_MODEL_REWRITE": "chat=chat-v2 mix=90*v1,10*v2 *=base"}},
        file("modelRewrite: {chat: chat-v2, mix: {v1: 90, v2: 10}, '*': base}\n"),
        file("modelRewrite: [chat=chat-v2, 'mix=90*v1,10*v2', '*=base']\n"),
    ],
    ids=["flags", "variable", "mapping", "list"],
)
def test_model_rewrites_in_every_form(given):
    settings, _, _ = load(**given)

    assert settings.model_rewrite == SPLIT
    leaf = next(leaf for leaf in leaves() if leaf.path == "modelRewrite")
    assert show_value(leaf, settings.model_rewrite) == "chat=chat-v2 mix=90*v1,10*v2 *=base"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b=c", ModelRewrite("a", (("b=c", 1),))),
        ("a=7*b", ModelRewrite("a", (("b", 7),))),
        ("a=llama3:8b", ModelRewrite("a", (("llama3:8b", 1),))),
        ("{'a b': 'c,d'}", ModelRewrite("a b", (("c,d", 1),))),
        ("{1: 2}", ModelRewrite("1", (("2", 1),))),
    ],
)
def test_one_model_rewrite_need_not_be_a_list_and_names_are_free(text, expected):
    assert load(**file(f"modelRewrite: {text}\n"))[0].model_rewrite == (expected,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("chat", "modelRewrite (line 1): is no model rewrite: chat"),
        ("=v2", "modelRewrite (line 1): is no model rewrite: =v2"),
        ("'m='", "modelRewrite (line 1): is no model rewrite: the string 'm='"),
        ("'m=a,b'", "modelRewrite (line 1): is no model rewrite: the string 'm=a,b'"),
        ("'m=1*a,b'", "modelRewrite (line 1): is no model rewrite: the string 'm=1*a,b'"),
        ("'m=0*a'", "modelRewrite (line 1): is no model rewrite: the string 'm=0*a'"),
        ("'m=1000001*a'", "modelRewrite (line 1): is no model rewrite: the string 'm=1000001*a'"),
        ("'m=,'", "modelRewrite (line 1): is no model rewrite: the string 'm=,'"),
        ("{m: ''}", "modelRewrite.m (line 1): is no model rewrite: the string ''"),
        ("{m: {}}", "modelRewrite.m (line 1): is no model rewrite: a mapping"),
        ("{m: {a: half}}", "modelRewrite.m (line 1): is no model rewrite: a mapping"),
        ("{m: {a: [1]}}", "modelRewrite.m (line 1): is no model rewrite: a mapping"),
        ("{m: [a]}", "modelRewrite.m (line 1): is no model rewrite: a list"),
        ("{'': a}", "modelRewrite. (line 1): is no model rewrite: a"),
        ("[{m: a}]", "modelRewrite[0] (line 1): is no model rewrite: a mapping"),
    ],
)
def test_what_is_no_model_rewrite_is_told(text, problem):
    assert problems(**file(f"modelRewrite: {text}\n")) == [
        f"s.yaml: {problem}; write MODEL=TARGET or MODEL=WEIGHT*TARGET,WEIGHT*TARGET with weights from 1 to 1000000"
    ]


def test_a_model_is_given_once():
    assert problems(flags="--model-rewrite a=b --model-rewrite a=c") == [
        "--model-rewrite[1]: model a is given twice; give all its targets at once"
    ]


def test_a_target_is_given_once():
    assert problems(flags="--model-rewrite a=1*b,2*b") == [
        "--model-rewrite: names a target of a twice; add up its weights"
    ]
