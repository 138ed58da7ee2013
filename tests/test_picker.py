"""`epp.Picker`: decisions for Python programs."""

import json

import pytest

import epp
from epp.errors import BadRequestError, ConfigError, ModelNotFoundError, NoEndpointsError
from epp.picker import Picker

A, B = "10.0.0.1:8000", "10.0.0.2:8000"
URLS = (f"http://{A}", f"http://{B}")
QUEUE = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- {type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}
schedulingProfiles:
- {name: default, plugins: [{pluginRef: queue-scorer}, {pluginRef: max-score-picker}]}
"""


@pytest.fixture
def by_queue(tmp_path):
    """A configuration that looks at queues alone and names two endpoints."""
    file = tmp_path / "queue.yaml"
    file.write_text(QUEUE)
    return file


def picker(**options):
    return Picker(URLS, **{"seed": 1, "clock": lambda: 100.0} | options)


def prompt(text="word " * 2000):
    return {"messages": [{"role": "user", "content": text}]}


def hits(pick, address):
    [hit] = [c["predicted_hit_tokens"] for c in pick.receipt["candidates"] if c["endpoint"] == address]
    return hit


def test_the_package_offers_it():
    assert epp.Picker is Picker


def test_the_package_has_no_other_names():
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = epp.nothing


def test_a_repeat_goes_where_the_first_went_and_its_hit_is_predicted():
    chosen = picker()

    first = chosen.pick(prompt())
    again = chosen.pick(prompt())

    assert again.endpoints == first.endpoints
    assert hits(first, first.endpoints[0]) == {"gpu": 0, "cpu": 0}
    # 10,000 bytes and some: 39 blocks of 256 bytes, at four bytes a token.
    assert hits(again, first.endpoints[0]) == {"gpu": 2496, "cpu": 0}
    assert again.receipt["picked"] == first.endpoints[0]


def test_without_commit_nothing_is_noted():
    chosen = picker()

    chosen.pick(prompt(), commit=False)
    again = chosen.pick(prompt(), commit=False)

    assert hits(again, A) == hits(again, B) == {"gpu": 0, "cpu": 0}


def test_bytes_are_taken_as_the_body():
    chosen = picker()
    chosen.pick(prompt())

    again = chosen.pick(json.dumps(prompt()).encode())

    assert hits(again, again.endpoints[0])["gpu"] == 2496


def test_another_path_reads_another_body():
    pick = picker().pick({"prompt": list(range(1000, 1640))}, path="/v1/completions")

    assert pick.receipt["prompt_tokens"] == 640


def test_reported_metrics_decide(by_queue):
    chosen = picker(config=by_queue)
    chosen.update_metrics(A, waiting=5.0)
    chosen.update_metrics(B, waiting=0.0)

    assert chosen.pick(prompt()).endpoints == (B, A)

    chosen.update_metrics(B, waiting=9.0)

    assert chosen.pick(prompt()).endpoints == (A, B)


def test_an_endpoint_that_restarted_has_lost_what_it_held():
    chosen = picker()
    for address in (A, B):
        chosen.update_metrics(address, process_start=1.0)
    first = chosen.pick(prompt()).endpoints[0]

    chosen.update_metrics(first, process_start=2.0)

    assert hits(chosen.pick(prompt(), commit=False), first) == {"gpu": 0, "cpu": 0}


def test_a_model_goes_where_it_is_served():
    chosen = picker()
    chosen.set_models(A, "small")
    chosen.set_models(B, "large", adapters={"support": "large"})

    assert chosen.pick({"model": "small", **prompt()}).endpoints == (A,)
    assert chosen.pick({"model": "large", **prompt()}).endpoints == (B,)
    assert chosen.pick({"model": "support", **prompt()}).receipt["adapter"] == "support"
    with pytest.raises(ModelNotFoundError):
        chosen.pick({"model": "unknown", **prompt()})


def test_a_request_that_the_proxy_would_refuse_is_refused():
    with pytest.raises(BadRequestError):
        picker().pick(b"{")


def test_without_endpoints_there_is_nobody():
    with pytest.raises(NoEndpointsError):
        Picker([]).pick(prompt())


@pytest.mark.parametrize("call", [lambda p: p.update_metrics("x:1"), lambda p: p.set_models("x:1", "m")])
def test_an_unknown_address_is_told_with_the_known_ones(call):
    with pytest.raises(ValueError, match=f"no endpoint 'x:1'; there are {A}, {B}"):
        call(picker())


@pytest.mark.parametrize("urls", [["ftp://10.0.0.1"], ["http://10.0.0.1:1", "http://10.0.0.1:1"]])
def test_endpoints_that_cannot_be_used_are_a_configuration_error(urls):
    with pytest.raises(ConfigError, match="endpoints: "):
        Picker(urls)


def test_a_configuration_that_cannot_be_used_is_a_configuration_error(tmp_path):
    file = tmp_path / "other.yaml"
    file.write_text("kind: Service\n")

    with pytest.raises(ConfigError, match="kind"):
        picker(config=file)


def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        picker(config=tmp_path / "missing.yaml")


def test_equal_seeds_decide_equally():
    def picks():
        chosen = picker(seed=5)
        return [chosen.pick(prompt(f"{n} " * 500)).endpoints for n in range(20)]

    first, second = picks(), picks()

    assert first == second
    assert len(set(first)) == 2
