"""Finding samples in text pages."""

import math
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from epp.scrape.exposition import PageError, Sample, SampleFinder

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures" / "vllm"


def find(page: str | bytes, *names: str) -> dict[str, list[Sample]]:
    return SampleFinder(names or ("m",)).find(page.encode() if isinstance(page, str) else page)


def test_samples_are_found_by_whole_name_in_page_order():
    page = 'm 1\nm{a="b"} 2\nma 3\nx_m 4\nm_total 5\nm_created 6\n# m 7\n# HELP m 8\n'

    assert find(page) == {"m": [Sample({}, 1.0), Sample({"a": "b"}, 2.0)]}


def test_several_names_are_found_at_once():
    page = "vllm:a_b 1\nvllm:a 2\nsglang:a 3\ntrt_a 4\nup 5\nother 6\n"

    assert find(page, "vllm:a", "vllm:a_b", "sglang:a", "trt_a", "up") == {
        "vllm:a_b": [Sample({}, 1.0)],
        "vllm:a": [Sample({}, 2.0)],
        "sglang:a": [Sample({}, 3.0)],
        "trt_a": [Sample({}, 4.0)],
        "up": [Sample({}, 5.0)],
    }


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("m 1", {}, 1.0),
        ("m\t1", {}, 1.0),
        ("m 1 1395066363000", {}, 1.0),
        ('m{a="b"} 1.5 1395066363000', {"a": "b"}, 1.5),
        ('m{a="b"} 1 # {trace_id="x"} 0.5 1395066363.5', {"a": "b"}, 1.0),
        ('m{a="b"} 1 ', {"a": "b"}, 1.0),
        ('m{a="b"}1', {"a": "b"}, 1.0),
        ("m{} 1", {}, 1.0),
        ('m{a="b",} 1', {"a": "b"}, 1.0),
        ('m{ a = "b" , c = "d" } 1', {"a": "b", "c": "d"}, 1.0),
        ('m{a="} 7 #"} 1', {"a": "} 7 #"}, 1.0),
        ('m{a="x,y=\\"z\\"",b="\\\\n\\n"} 1', {"a": 'x,y="z"', "b": "\\n\n"}, 1.0),
        ('m{a="张"} 1', {"a": "张"}, 1.0),
        ("m 1e+06", {}, 1_000_000.0),
        ("m -3", {}, -3.0),
        ("m +Inf", {}, math.inf),
    ],
)
def test_one_line(line, labels, value):
    assert find(line + "\n") == {"m": [Sample(labels, value)]}
    assert find(line) == {"m": [Sample(labels, value)]}


def test_a_line_of_a_megabyte_is_read_like_others():
    value = 'a\\"b\\\\' * 200_000
    page = f'm{{x="{value}",y="z"}} 1\n'

    assert find(page) == {"m": [Sample({"x": 'a"b\\' * 200_000, "y": "z"}, 1.0)]}


def test_more_samples_than_any_engine_has_are_an_error():
    assert len(find('m{a="b"} 1\n' * 10_000)["m"]) == 10_000
    with pytest.raises(PageError, match="more than 10000 samples"):
        find('m{a="b"} 1\n' * 10_001)


def test_nan_is_a_value():
    assert math.isnan(find("m NaN\n")["m"][0].value)


def test_label_bytes_that_are_not_utf8_are_replaced():
    assert find(b'm{a="\xff"} 1\n') == {"m": [Sample({"a": "�"}, 1.0)]}


def test_carriage_returns_before_line_feeds_do_not_matter():
    assert find('# HELP m x\r\nm{a="b"} 1\r\nm 2\r\n') == {"m": [Sample({"a": "b"}, 1.0), Sample({}, 2.0)]}


@pytest.mark.parametrize("page", ["", "\n", "\n\n", "# only a comment\n"])
def test_page_without_samples_is_empty_and_no_error(page):
    assert find(page) == {}


@pytest.mark.parametrize(
    "page",
    [
        "<!doctype html>\n<html>\n</html>\n",
        "Not Found\n",
        '{"error": "x"}',
        'm 1\nx 2\nb{x="2',
        "m 1\nx_to",
        'm 1\nx{a="b"}',
        "m 1\nx ",
        "m 1\nx\n",
        "m abc\n",
        "m 1 2 3\n",
        "m{a=b} 1\nx 1\n",
        'm{a="b} 1\nx 1\n',
        'm{a="b" c="d"} 1\nx 1\n',
        'm{a="b"} one\nx 1\n',
    ],
)  # fmt: skip
def test_page_that_is_not_metrics_or_is_cut_or_has_a_bad_wanted_line_is_an_error(page):
    with pytest.raises(PageError):
        find(page)


def test_compressed_page_is_an_error():
    with pytest.raises(PageError, match="not a line of metrics"):
        find(b"\x1f\x8b\x08\x00abc\ndef")


def test_error_shows_what_is_wrong_in_short():
    with pytest.raises(PageError, match=re.escape("bad sample of m: ' abc'")):
        find("x 1\nm abc\nx 1\n")
    with pytest.raises(PageError, match=re.escape("bad value of m: '1e'")):
        find("x 1\nm 1e\nx 1\n")
    with pytest.raises(PageError) as caught:
        find("<" * 500)
    assert len(str(caught.value)) < 100


def test_bad_line_of_another_metric_does_not_matter():
    assert find("m 1\nx abc\ny 2\n") == {"m": [Sample({}, 1.0)]}


def test_value_after_a_known_label_block_is_still_checked():
    finder = SampleFinder(("m",))
    finder.find(b'm{a="b"} 1\n')

    assert finder.find(b'm{a="b"} 2 1395066363000\n') == {"m": [Sample({"a": "b"}, 2.0)]}
    with pytest.raises(PageError, match="bad sample"):
        finder.find(b'x 1\nm{a="b"} two\nx 1\n')


def test_label_blocks_beyond_the_limit_start_the_memory_anew():
    finder = SampleFinder(("m",))
    for number in range(4097):
        finder.find(b'm{a="%d"} 1\n' % number)

    assert len(finder._known) == 1
    assert finder.find(b'm{a="7"} 1\n') == {"m": [Sample({"a": "7"}, 1.0)]}


@pytest.mark.parametrize("name", ["metrics-idle.txt", "metrics-busy.txt"])
def test_recorded_pages_read_as_the_reference_parser_reads_them(name):
    page = (FIXTURES / name).read_bytes()
    expected: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            expected.setdefault(sample.name, []).append(Sample(sample.labels, sample.value))

    found = SampleFinder(sorted(expected)).find(page)

    assert len(expected) > 100
    assert found == expected


label_values = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8)
label_sets = st.dictionaries(st.sampled_from(["a", "model_name", "le"]), label_values, max_size=3)
numbers = st.floats(allow_nan=False)


@given(st.lists(st.tuples(st.sampled_from(["m", "ma", "x:y", "x:yz"]), label_sets, numbers), min_size=1))
def test_written_samples_are_read_back(samples):
    def escaped(value):
        return value.replace("\\", "\\\\").replace('"', '\\"')

    lines, expected = [], {}
    for name, labels, value in samples:
        block = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{block}}} {value!r}" if labels else f"{name} {value!r}")
        if name in {"m", "x:y"}:
            expected.setdefault(name, []).append(Sample(labels, value))

    assert find("\n".join(lines) + "\n", "m", "x:y") == expected
