"""One pool from several sources."""

from epp.discovery.merging import Merged, merge
from epp.endpoints.types import EndpointSpec


def spec(host, scheme="http", labels=None, **more):
    return EndpointSpec(scheme, host, 8000, labels or {}, **more)


def test_without_sources_the_pool_is_empty():
    assert merge([]) == Merged(())


def test_endpoints_come_in_the_order_of_the_sources():
    merged = merge([("file", [spec("b"), spec("a")]), ("dns", [spec("c"), spec("a")])])

    assert [s.host for s in merged.specs] == ["b", "a", "c"]
    assert merged.conflicts == ()


def test_labels_are_put_together_and_the_first_source_wins():
    merged = merge(
        [
            ("endpoint", [spec("a", labels={"zone": "1", "role": "decode"})]),
            ("dns", [spec("a", labels={"zone": "2", "rack": "7"})]),
            ("file", [spec("a", labels={"rack": "8"})]),
        ]
    )

    assert [dict(s.labels) for s in merged.specs] == [{"zone": "1", "role": "decode", "rack": "7"}]


def test_names_and_uids_come_from_the_first_source_that_has_them():
    merged = merge(
        [
            ("endpoint", [spec("a")]),
            ("file", [spec("a", name="vllm-0", namespace="prod")]),
            ("kube", [spec("a", name="pod-0", namespace="other", uid="u1")]),
        ]
    )

    assert merged.specs == (spec("a", name="vllm-0", namespace="prod", uid="u1"),)


def test_sources_that_differ_in_the_scheme_are_told_and_the_first_is_right():
    merged = merge([("file", [spec("a", "https")]), ("dns http://x:8000", [spec("a"), spec("b")])])

    assert [s.url for s in merged.specs] == ["https://a:8000", "http://b:8000"]
    assert merged.conflicts == ("a:8000 is https by file, http by dns http://x:8000",)


def test_one_host_with_two_ports_is_two_endpoints():
    assert len(merge([("file", [spec("a"), EndpointSpec("http", "a", 8001)])]).specs) == 2
