"""Model names: who serves what, what is absent, and the list that clients see."""

import dataclasses
import json

import pytest

from epp.endpoints.models import ModelCatalog
from epp.endpoints.types import ModelInfo
from epp.errors import BadRequestError, ModelNotFoundError
from tests.endpoints.builders import endpoint, model, pool


@pytest.fixture
def catalog() -> ModelCatalog:
    return ModelCatalog()


LLAMA = model("llama", root="meta/llama")
ALIAS = model("chat", root="meta/llama")
QWEN = model("qwen", root="qwen/qwen")
ADAPTER = model("sql", root="/adapters/sql", parent="llama")


def test_a_name_leads_to_the_endpoints_that_list_it(catalog):
    fleet = pool(endpoint(0, LLAMA), endpoint(1, QWEN), endpoint(2, LLAMA))

    found = catalog.resolve(fleet, "llama")

    assert (found.model, found.base, found.adapter) == ("llama", "meta/llama", "")
    assert [e.slot for e in found.endpoints] == [0, 2]


def test_when_all_serve_it_the_pools_own_tuple_is_used(catalog):
    fleet = pool(endpoint(0, LLAMA), endpoint(1, LLAMA))

    assert catalog.resolve(fleet, "llama").endpoints is fleet.endpoints


def test_aliases_share_the_identity_of_their_root(catalog):
    fleet = pool(endpoint(0, LLAMA, ALIAS))

    assert catalog.resolve(fleet, "chat").base == catalog.resolve(fleet, "llama").base == "meta/llama"
    assert catalog.resolve(fleet, "chat").model == "chat"


def test_without_a_root_the_name_is_the_identity(catalog):
    assert catalog.resolve(pool(endpoint(0, model("m"))), "m").base == "m"


def test_an_adapter_has_its_parents_identity_and_its_own_name(catalog):
    fleet = pool(endpoint(0, LLAMA, ADAPTER), endpoint(1, LLAMA))

    found = catalog.resolve(fleet, "sql")

    assert (found.model, found.base, found.adapter) == ("sql", "meta/llama", "sql")
    assert [e.slot for e in found.endpoints] == [0]


@pytest.mark.parametrize("parent", [model("base"), None], ids=["parent without root", "parent not listed"])
def test_an_adapter_whose_parent_has_no_root_is_identified_by_the_parents_name(catalog, parent):
    listed = [m for m in (parent, model("a", root="/a", parent="base")) if m]

    assert catalog.resolve(pool(endpoint(0, *listed)), "a").base == "base"


def test_where_endpoints_disagree_the_lowest_slot_is_right(catalog):
    fleet = pool(endpoint(0, model("m", root="x")), endpoint(1, model("m", root="y")))

    assert catalog.resolve(fleet, "m").base == "x"


@pytest.mark.parametrize("name", [None, ""])
def test_no_name_means_the_only_base_model(catalog, name):
    fleet = pool(endpoint(0, LLAMA, ADAPTER), endpoint(1, LLAMA))

    assert catalog.resolve(fleet, name).model == "llama"


def test_no_name_with_aliases_of_one_model_means_the_first_listed(catalog):
    fleet = pool(endpoint(0, ALIAS, LLAMA), endpoint(1, LLAMA, ALIAS))

    assert catalog.resolve(fleet, None).model == "chat"


def test_no_name_with_several_models_is_refused_naming_them(catalog):
    fleet = pool(endpoint(0, LLAMA, ADAPTER), endpoint(1, QWEN))

    with pytest.raises(BadRequestError, match="this pool serves llama, qwen") as error:
        catalog.resolve(fleet, None)
    assert error.value.param == "model"


def test_of_many_models_an_error_names_the_first_twenty(catalog):
    fleet = pool(endpoint(0, *(model(f"{number:02}" + "x" * 300) for number in range(30))))

    with pytest.raises(BadRequestError, match=r"this pool serves 00x+, 01x+, .*, 19x+ and others$") as error:
        catalog.resolve(fleet, None)
    assert len(error.value.message) < 20 * 210


def test_the_same_path_at_two_endpoints_does_not_make_two_models_one(catalog):
    fleet = pool(endpoint(0, model("a", root="/model")), endpoint(1, model("b", root="/model")))

    with pytest.raises(BadRequestError, match="this pool serves a, b"):
        catalog.resolve(fleet, None)


def test_no_name_in_a_pool_that_serves_nothing_is_refused(catalog):
    with pytest.raises(BadRequestError, match="this pool serves no model"):
        catalog.resolve(pool(endpoint(0)), None)


def test_no_name_where_no_model_is_known_goes_to_those_that_have_not_told(catalog):
    fleet = pool(endpoint(0, told=False), endpoint(1))

    found = catalog.resolve(fleet, None)

    assert (found.model, found.base) == ("", "")
    assert [e.slot for e in found.endpoints] == [0]


@pytest.mark.parametrize("name", [None, "m"])
def test_an_empty_pool_has_no_endpoint_for_any_name_and_denies_none(catalog, name):
    found = catalog.resolve(pool(), name)

    assert (found.model, found.endpoints) == (name or "", ())


def test_an_unknown_name_does_not_exist_when_all_have_told(catalog):
    with pytest.raises(ModelNotFoundError, match="model 'gpt' does not exist") as error:
        catalog.resolve(pool(endpoint(0, LLAMA)), "gpt")
    assert error.value.param == "model"


def test_a_long_unknown_name_is_not_repeated_whole(catalog):
    with pytest.raises(ModelNotFoundError) as error:
        catalog.resolve(pool(endpoint(0, LLAMA)), "x" * 100_000)
    assert len(error.value.message) < 300


def test_an_endpoint_that_has_not_told_is_a_candidate_for_every_name(catalog):
    fleet = pool(endpoint(0, LLAMA), endpoint(1, told=False), endpoint(2, QWEN))

    assert [e.slot for e in catalog.resolve(fleet, "llama").endpoints] == [0, 1]
    unknown = catalog.resolve(fleet, "gpt")
    assert (unknown.model, unknown.base, unknown.adapter) == ("gpt", "gpt", "")
    assert [e.slot for e in unknown.endpoints] == [1]
    assert catalog.resolve(fleet, "gpt-2").endpoints is unknown.endpoints


def test_draining_endpoints_still_serve_their_models(catalog):
    fleet = pool(endpoint(0, LLAMA, draining=True))

    assert [e.slot for e in catalog.resolve(fleet, "llama").endpoints] == [0]


def test_the_list_is_the_union_by_id_with_unchanged_entries(catalog):
    raw = b'{"id":"llama","root":"meta/llama", "max_model_len": 4096,"permission":[{"id":"p"}]}'
    first = ModelInfo("llama", root="meta/llama", raw=raw)
    fleet = pool(endpoint(0, told=False), endpoint(1, first, ADAPTER), endpoint(2, LLAMA, QWEN))

    body = catalog.models_json(fleet)

    assert body == b'{"object":"list","data":[' + raw + b',{"id":"sql"},{"id":"qwen"}]}'
    assert [entry["id"] for entry in json.loads(body)["data"]] == ["llama", "sql", "qwen"]


def test_a_pool_without_models_lists_none(catalog):
    assert catalog.models_json(pool()) == b'{"object":"list","data":[]}'


def test_names_are_all_known_models_and_adapters(catalog):
    assert catalog.names(pool(endpoint(0, LLAMA, ADAPTER), endpoint(1, QWEN))) == ("llama", "sql", "qwen")


def test_answers_are_kept_while_the_pool_is_the_same(catalog):
    fleet = pool(endpoint(0, LLAMA), endpoint(1, QWEN))

    assert catalog.resolve(fleet, "llama") is catalog.resolve(fleet, "llama")
    assert catalog.models_json(fleet) is catalog.models_json(fleet)


def test_new_metrics_bring_the_new_endpoints_without_a_new_list(catalog):
    old = pool(endpoint(0, LLAMA), endpoint(1, QWEN), version=1, topology=1)
    body = catalog.models_json(old)
    scraped = dataclasses.replace(old.endpoints[0], fresh=True)
    new = pool(scraped, old.endpoints[1], version=2, topology=1)

    assert catalog.resolve(new, "llama").endpoints == (scraped,)
    assert catalog.models_json(new) is body


def test_another_topology_is_looked_at_anew(catalog):
    catalog.resolve(pool(endpoint(0, LLAMA), topology=1), "llama")

    with pytest.raises(ModelNotFoundError):
        catalog.resolve(pool(endpoint(0, QWEN), version=2, topology=2), "llama")


def test_pools_that_say_nothing_of_topology_are_looked_at_anew(catalog):
    catalog.resolve(pool(endpoint(0, LLAMA)), "llama")

    assert catalog.names(pool(endpoint(0, QWEN))) == ("qwen",)
