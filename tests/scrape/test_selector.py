"""Metric names with labels, as operators write them."""

import pytest

from epp.scrape.engines import Selector


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("vllm:num_requests_waiting", Selector("vllm:num_requests_waiting")),
        (" up ", Selector("up")),
        ("m{}", Selector("m")),
        ("m{a=b}", Selector("m", (("a", "b"),))),
        ('m{a="b", c=d,}', Selector("m", (("a", "b"), ("c", "d")))),
    ],
)
def test_name_with_or_without_labels(text, selector):
    assert Selector.parse(text) == selector


@pytest.mark.parametrize("text", ["", "1m", "m{", "m{a}", "m{=b}", "m a", "m{a=b}x"])
def test_anything_else_is_refused_with_what_to_write(text):
    with pytest.raises(ValueError, match="write "):
        Selector.parse(text)
