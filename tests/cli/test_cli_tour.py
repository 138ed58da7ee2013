"""`epp tour`: what it prints of what a router answers."""

import httpx
import pytest

from epp.cli import main, tour
from epp.cli.tour import Step, Tour


def test_a_step_is_one_row_with_dashes_for_what_is_not_known():
    known = Step("1 first", "127.0.0.1:8001", 3351, 3280, 0, 3328)
    unknown = Step("1 first", "-", None, None, None, None)

    assert known.line().split() == [
        "1", "first", "127.0.0.1:8001", "3351", "gpu", "3280", "cpu", "0", "3328",
    ]  # fmt: skip
    assert unknown.line().split() == ["1", "first", "-", "-", "gpu", "-", "cpu", "-", "-"]


@pytest.mark.parametrize(
    ("decision", "hits"),
    [
        ("10.0.0.1:8000 total=4.0/6 hit=gpu:3280,cpu:16 candidates=4", {"gpu": 3280, "cpu": 16}),
        ("10.0.0.1:8000 hit=cpu:7", {"cpu": 7}),
        ("10.0.0.1:8000 candidates=4", {}),
        ("", {}),
    ],
)
def test_hits_are_read_from_the_receipt_line(decision, hits):
    assert tour._hits(decision) == hits


def test_texts_are_the_same_for_the_same_number_and_share_no_beginning():
    assert tour._text(1, 100) == tour._text(1, 100)
    assert tour._text(1, 100)[:14] != tour._text(2, 100)[:14]
    assert len(tour._text(1, 1400).split()) == 1402


class Scripted:
    """A router whose endpoint has lost the prompt after `kept` other prompts."""

    def __init__(self, kept):
        self.kept = kept
        self.prompts = []

    def __call__(self, request):
        if request.url.path == "/pick":
            gone = len(self.prompts) - 2 >= self.kept
            candidate = {"endpoint": "a:1", "predicted_hit_tokens": {"gpu": 0 if gone else 100, "cpu": 100}}
            return httpx.Response(200, json={"endpoints": ["a:1"], "receipt": {"candidates": [candidate]}})
        self.prompts.append(request.content)
        answer = {"usage": {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 96}}}
        return httpx.Response(
            200, json=answer, headers={"x-epp-endpoint": "a:1", "x-epp-decision": "a:1 hit=gpu:1,cpu:2"}
        )


def steps_with(router, fill=0):
    with httpx.Client(transport=httpx.MockTransport(router), base_url="http://router") as client:
        return list(Tour(client).steps(fill))


def test_it_fills_until_the_prompt_has_left_the_gpu_tier():
    steps = steps_with(Scripted(kept=8))

    assert [step.name[0] for step in steps] == ["1", "2", *("3" * 8), "4"]
    assert steps[0] == Step("1 a long system prompt, first time", "a:1", 100, 1, 2, 96)


def test_it_gives_up_filling_after_200_prompts():
    assert len(steps_with(Scripted(kept=10**6))) == 203


def test_it_fills_with_as_many_as_it_is_told():
    assert len(steps_with(Scripted(kept=0), fill=3)) == 6


def test_without_a_receipt_it_takes_the_prompt_for_gone():
    def router(request):
        if request.url.path == "/pick":
            return httpx.Response(200, json={"endpoints": ["a:1"]})
        return httpx.Response(200, json={})

    steps = steps_with(router)

    assert len(steps) == 7
    assert steps[0] == Step("1 a long system prompt, first time", "-", None, None, None, None)


@pytest.mark.parametrize(("last", "told"), [("a:1", "to the same server"), ("b:1", "to another server")])
def test_the_summary_says_where_the_request_went(last, told):
    steps = [Step("", where, 100, 0, 90, 96) for where in ("a:1", "a:1", "b:1", last)]

    assert told in tour._summary(steps)
    assert "After 1 other prompts" in tour._summary(steps)


@pytest.mark.parametrize("fill", ["-1", "some", "10001"])
def test_a_number_of_prompts_that_cannot_be_is_refused(fill, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["tour", f"--fill={fill}"])

    assert ended.value.code == 2
    assert f"argument --fill: must be a number from 0 to 10000, not {fill!r}" in capsys.readouterr().err
