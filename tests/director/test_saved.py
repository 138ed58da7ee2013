"""What one router learned is taken over by the next, as far as endpoints are still who they were."""

import pytest
from xxhash import xxh3_128_digest

from epp.compose import compose
from epp.config.load import load_config
from epp.director import saved as saved_module
from epp.director.saved import collect, differences, hashing_fingerprint, restore, restore_ratios
from epp.director.saved_file import FORMAT, SavedFileError, from_bytes, to_bytes
from epp.endpoints.types import EndpointMetrics, ModelInfo
from epp.prefix import drain
from tests.director.core import TIERED, Pool, usage

PROMPT = "x" * 640
METRICS = EndpointMetrics(process_start=100.0, prompt_tokens_total=1000.0, generation_tokens_total=50.0)


def scraped(pool, i, metrics=METRICS):
    endpoint = pool.endpoint(i)
    pool.core.upkeep.on_metrics(endpoint.address, endpoint.incarnation, metrics, 1.0)
    return pool.endpoint(i)


def learned(n=3):
    """A router, one of whose endpoints has served a prompt, the ratio being 2 bytes a token; and which."""
    pool = Pool(n=n)
    for i in range(1, n + 1):
        scraped(pool, i)
    exchange, target = pool.send(PROMPT)
    pool.answer(exchange, usage=usage(320))
    return pool, target.address


def file_of(pool, at=1000.0):
    return b"".join(to_bytes(drain(collect(pool.core.state, at))))


def taken_over(pool, data, address):
    saved = from_bytes(data)
    drain(saved.runs.place_all())
    drain(restore_ratios(pool.core.state.ratios, saved.header))
    endpoint = pool.core.table.endpoint(address)
    return drain(restore(pool.core.state, saved, endpoint))


def held(pool, address):
    slot = pool.core.table.endpoint(address).slot
    return {view.name: pool.index.blocks(view.index_view, slot) for view in pool.core.state.views}


@pytest.mark.parametrize("step", [1, 100])
def test_the_next_process_predicts_what_the_one_before_it_did(step, monkeypatch):
    monkeypatch.setattr("epp.prefix.saving._STEP_RUNS", step)
    before, address = learned()
    after = Pool()
    for i in (1, 2, 3):
        scraped(after, i)
    assert taken_over(after, file_of(before), address) == 20

    assert held(after, address) == held(before, address) == {"gpu": 10, "cpu": 10}
    after.index.check_integrity()
    _, target = after.send(PROMPT)
    assert target.address == address
    assert after.core.state.ratios.models() == {"m": 2.0}
    assert after.core.state.ratios.families() == before.core.state.ratios.families() != []


def test_what_this_process_learned_itself_stands_above_what_was_saved():
    before, address = learned()
    after = Pool()
    for i in (1, 2, 3):
        scraped(after, i)
    after.serve(PROMPT, usage=usage(160))
    after.serve("y" * 640, usage=usage(160))
    taken_over(after, file_of(before), address)

    family = before.core.state.ratios.families()[0][1]
    assert after.core.state.ratios.bytes_per_token("m", family) == 4.0
    assert after.core.state.ratios.models() == {"m": 4.0}


def test_saved_families_are_forgotten_before_those_of_this_process(monkeypatch):
    monkeypatch.setattr("epp.director.tokens._MAX_FAMILIES", 2)
    monkeypatch.setattr(saved_module, "_FAMILIES_A_STEP", 1)
    pool = Pool()
    ratios = pool.core.state.ratios
    ratios.learn("m", 40, 10, family=1)
    header = from_bytes(file_of(pool)).header
    header.families = [("m", 7, 3.0), ("m", 8, 3.0), ("m", 10, 3.0), ("m", 9, 99.0)]
    assert sum(1 for _ in restore_ratios(ratios, header)) == 4

    assert ratios.families() == [("m", 10, 3.0), ("m", 1, 4.0)]
    ratios.learn("m", 40, 10, family=2)
    assert ratios.families() == [("m", 1, 4.0), ("m", 2, 4.0)]


def test_a_view_with_another_block_size_starts_empty_and_the_other_does_not():
    before, address = learned()
    config = TIERED.replace(
        "name: gpu, parameters: {blockSize: 64}", "name: gpu, parameters: {blockSize: 128}"
    )
    after = Pool(config=config)
    for i in (1, 2, 3):
        scraped(after, i)
    taken_over(after, file_of(before), address)

    assert held(after, address) == {"gpu": 0, "cpu": 10}


def test_an_endpoint_that_was_not_saved_gets_nothing():
    before, address = learned()
    other = next(e.address for e in before.core.table.pool.endpoints if e.address != address)
    after = Pool()
    for i in (1, 2, 3):
        scraped(after, i)

    assert taken_over(after, file_of(before), other) == 0


def test_it_stops_when_the_incarnation_ends_meanwhile(monkeypatch):
    monkeypatch.setattr("epp.prefix.saving._STEP_RUNS", 1)
    before, address = learned()
    after = Pool()
    for i in (1, 2, 3):
        scraped(after, i)
    saved = from_bytes(file_of(before))
    drain(saved.runs.place_all())
    steps = restore(after.core.state, saved, after.core.table.endpoint(address))
    next(steps)
    after.core.table.end_incarnation(address)
    assert list(steps) == []

    while not after.index.sweep(100):
        pass
    assert held(after, address) == {"gpu": 0, "cpu": 0}


def test_it_stops_when_the_endpoint_goes_meanwhile(monkeypatch):
    monkeypatch.setattr("epp.prefix.saving._STEP_RUNS", 1)
    before, address = learned()
    after = Pool()
    scraped(after, 1)
    saved = from_bytes(file_of(before))
    drain(saved.runs.place_all())
    steps = restore(after.core.state, saved, after.core.table.endpoint(address))
    next(steps)
    after.core.table.remove(address)

    assert list(steps) == []


def test_an_endpoint_that_goes_while_it_is_saved_is_left_out():
    pool, _ = learned()
    steps = collect(pool.core.state, 1000.0)
    next(steps)
    for endpoint in pool.core.table.pool.endpoints:
        pool.core.table.remove(endpoint.address)

    assert drain(steps).header.endpoints == []


def test_an_endpoint_that_held_nothing_is_saved_without_lists():
    pool = Pool(n=1)
    saved = drain(collect(pool.core.state, 1000.0))

    assert [endpoint.address for endpoint in saved.header.endpoints] == ["10.0.0.1:8000"]
    assert saved.header.lists == saved.entries == []


def test_a_list_that_is_dropped_while_it_is_saved_is_left_out(monkeypatch):
    monkeypatch.setattr("epp.prefix.saving._STEP", 1)
    pool, _ = learned(n=1)
    pool.serve("z" * 640)
    steps = collect(pool.core.state, 1000.0)
    for _ in range(2):
        next(steps)
    for endpoint in pool.core.table.pool.endpoints:
        pool.core.table.end_incarnation(endpoint.address)

    assert drain(steps).header.lists == []


@pytest.mark.parametrize(("view", "left"), [(None, []), (0, ["cpu"])])
def test_a_list_that_is_dropped_after_it_was_read_is_left_out(view, left):
    pool, _ = learned(n=2)
    pool.serve("z" * 640)
    first = pool.endpoint(1)
    pool.index.touch(0, first.slot, [1, 2], 16)
    pool.index.touch(1, first.slot, [1, 2], 16)
    steps = collect(pool.core.state, 1000.0)
    next(steps)
    next(steps)  # the first endpoint has been read
    pool.index.drop(first.slot, view)
    header = drain(steps).header

    assert [header.views[part.view].name for part in header.lists if part.endpoint == 0] == left
    assert [header.views[part.view].name for part in header.lists if part.endpoint == 1] == ["gpu", "cpu"]


BASE = (ModelInfo("m"), ModelInfo("a", parent="m"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"process_start": 101.0}, "its engine was restarted"),
        ({"prompt_tokens_total": 999.0}, "its engine was restarted"),
        ({"generation_tokens_total": 49.0}, "its engine was restarted"),
        ({"prompt_tokens_total": 1001.0, "generation_tokens_total": 51.0}, None),
        ({"process_start": None}, "nothing tells whether it is the same process"),
        ({"awake": False}, "its engine sleeps"),
        ({"block_tokens": 32}, "its engine block is 32 tokens and was None"),
    ],
)
def test_who_an_endpoint_is_is_told_by_its_metrics(changes, why):
    before = Pool(n=1)
    scraped(before, 1)
    saved = drain(collect(before.core.state, 1000.0)).header.endpoints[0]
    after = Pool(n=1)
    scraped(after, 1, EndpointMetrics(**{"process_start": 100.0, "prompt_tokens_total": 1000.0} | changes))

    assert differences(saved, after.endpoint(1)) == why


def test_a_pod_is_known_by_its_uid_where_its_engine_tells_no_start():
    saved = saved_module.SavedEndpoint("10.0.0.1:8000", uid="a")
    pool = Pool(n=1)
    for uid, why in (("a", None), ("b", "another pod has its address")):
        spec = type(pool.specs[0])("http", "10.0.0.1", 8000, uid=uid)
        pool.core.upkeep.sync_endpoints([spec], 1.0)
        assert differences(saved, pool.endpoint(1)) == why


@pytest.mark.parametrize(
    ("models", "why"),
    [(BASE, None), ((), None), (BASE[:1], None), ((ModelInfo("n"),), "it serves n and served m")],
)
def test_an_endpoint_that_serves_another_model_is_another(models, why):
    before = Pool(n=1)
    scraped(before, 1)
    before.core.table.set_models("10.0.0.1:8000", BASE, 1.0)
    saved = drain(collect(before.core.state, 1000.0)).header.endpoints[0]
    after = Pool(n=1)
    scraped(after, 1)
    after.core.table.set_models("10.0.0.1:8000", models, 1.0)

    assert differences(saved, after.endpoint(1)) == why


def test_the_fingerprint_is_that_of_three_prompts_as_they_are_hashed_today():
    assert hashing_fingerprint() == "250fd24aed7380f0-a37fcc75837fe7cb-0b7468ae428f9384"


def test_shadow_views_are_kept_too():
    pool = Pool(n=1)
    core = compose(load_config(TIERED, "t"), pool.options, shadow=load_config(TIERED, "t"))

    assert [view.name for view in drain(collect(core.state, 1.0)).header.views] == ["gpu", "cpu"] * 2


DATA = file_of(learned()[0])


def test_the_file_says_what_it_is():
    assert DATA.startswith(b"epp-state\n\x01\x00\x00\x00")
    assert FORMAT == 1


@pytest.mark.parametrize("bit", [1, 128])
def test_a_file_that_is_damaged_at_any_offset_is_refused(bit):
    for offset in range(len(DATA)):
        damaged = bytearray(DATA)
        damaged[offset] ^= bit
        with pytest.raises(SavedFileError):
            from_bytes(bytes(damaged))


def test_a_file_that_was_cut_anywhere_or_has_more_is_refused():
    for length in range(len(DATA)):
        with pytest.raises(SavedFileError):
            from_bytes(DATA[:length])
    with pytest.raises(SavedFileError):
        from_bytes(DATA + b"\0")


def resealed(data):
    """A file whose checksum is right, whatever it says."""
    return data + xxh3_128_digest(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"something else" + bytes(40), "it is no saved state"),
        (DATA[:10] + b"\x02" + DATA[11:], "it has format 2, not 1"),
        (DATA[:40] + b"\xff" + DATA[41:], "it is damaged: its checksum is wrong"),
        (b"", "it is too short"),
        (resealed(DATA[:14] + (5).to_bytes(8, "little") + DATA[22:-16]), "its header cannot be read: .*"),
        (resealed(DATA[:-32]), "it is too short"),
        (resealed(DATA[:-16] + bytes(8)), "it has 8 bytes too many"),
    ],
)
def test_why_a_file_is_refused_is_said(data, why):
    with pytest.raises(SavedFileError, match=f"^{why}$"):
        from_bytes(data)


def with_list(view, endpoint, entries=0):
    saved = from_bytes(DATA)
    saved.header.lists = [saved_module.SavedList(view, endpoint, entries)]
    saved.entries = [saved.entries[0]] if entries > 0 else []
    return b"".join(to_bytes(saved))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (with_list(9, 0), "a list names a view or an endpoint that is not there"),
        (with_list(0, -1), "a list names a view or an endpoint that is not there"),
        (with_list(0, 0, -1), "it is too short"),
    ],
)
def test_a_list_of_nobody_is_refused(data, why):
    with pytest.raises(SavedFileError, match=why):
        from_bytes(data)


def test_big_endian_machines_write_and_read_the_same_bytes(monkeypatch):
    from array import array

    from epp.director import saved_file

    monkeypatch.setattr(saved_file.sys, "byteorder", "big")

    assert saved_file._little_endian(array("Q", [1])).tobytes() == array("Q", [1 << 56]).tobytes()
