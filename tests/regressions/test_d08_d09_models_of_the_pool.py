"""D08 (VR i135): `/v1/models` was 500 if one worker was down. D09 (PS p927): the list lost fields."""

import json

from epp.scrape.models import read_models
from tests.director.core import Pool

CARD = {
    "id": "m",
    "object": "model",
    "created": 1,
    "owned_by": "vllm",
    "root": "/models/m",
    "parent": None,
    "max_model_len": 32_768,
    "permission": [{"id": "p-1", "allow_sampling": True}],
}
ADAPTER = {**CARD, "id": "sql", "root": "/adapters/sql", "parent": "m"}


def list_of(*cards):
    return read_models(json.dumps({"object": "list", "data": cards}).encode())


def told(pool, i, *cards):
    endpoint = pool.endpoint(i)
    pool.core.upkeep.on_models(endpoint.address, endpoint.incarnation, list_of(*cards), 1.0)


def models(pool):
    return json.loads(pool.core.state.catalog.models_json(pool.core.table.pool))


def test_d08_the_list_is_that_of_the_endpoints_that_answer():
    pool = Pool(n=2)
    down = pool.endpoint(1)
    for now in (1.0, 2.0, 3.0):
        pool.core.upkeep.on_scrape_failure(down.address, down.incarnation, refused=True, now=now)
    told(pool, 2, CARD)

    assert models(pool) == {"object": "list", "data": [CARD]}


def test_d08_without_any_answer_the_list_is_empty():
    assert models(Pool(n=2)) == {"object": "list", "data": []}


def test_d09_every_field_is_kept_and_each_id_stands_once():
    pool = Pool(n=2)
    told(pool, 1, CARD)
    told(pool, 2, {**CARD, "created": 2}, ADAPTER)

    assert models(pool)["data"] == [CARD, ADAPTER]
