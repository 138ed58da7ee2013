"""The endpoint table: declarative sync, incarnations, slots, staleness."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.endpoints.ledger import Ledger
from epp.endpoints.table import EndpointTable, ReportState, TableChanges
from epp.endpoints.types import EndpointMetrics, EndpointSpec
from tests.endpoints.builders import model, spec

E1, E2, E3 = (f"10.0.0.{last}:8000" for last in (1, 2, 3))


class Harness:
    """A table with its ledger, the slots it reported as lost, and slots whose index entries remain."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.lost: list[int] = []
        self.uncleaned: set[int] = set()
        self.table = EndpointTable(self.ledger, self.lost.append, lambda slot: slot not in self.uncleaned)


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def table(harness) -> EndpointTable:
    return harness.table


def scraped(**fields) -> EndpointMetrics:
    return EndpointMetrics(**fields)


def test_pool_lists_endpoints_by_slot_and_address(table):
    table.sync([spec(1), spec(2)], 10.0)

    assert [(e.slot, e.address, e.added_at) for e in table.pool.endpoints] == [(0, E1, 10.0), (1, E2, 10.0)]
    assert table.pool.by_address[E2] is table.pool.endpoints[1]
    assert table.pool.at_slot(1) is table.pool.endpoints[1]
    assert table.pool.at_slot(7) is None


def test_an_empty_table_has_an_empty_pool(table):
    assert table.pool.endpoints == ()


def test_a_new_endpoint_knows_nothing_yet(table):
    table.add(spec(1), 0.0)

    endpoint = table.pool.endpoints[0]
    assert (endpoint.metrics, endpoint.fresh, endpoint.models, endpoint.draining) == (
        None,
        False,
        None,
        False,
    )


def test_readers_get_the_same_pool_until_something_changes(table):
    table.sync([spec(1)], 0.0)
    before = table.pool

    assert table.pool is before
    table.update_metrics(E1, scraped(waiting=1.0), 1.0)
    assert table.pool is not before
    assert before.endpoints[0].metrics is None


def test_sync_reports_what_it_added_removed_and_updated(table):
    table.sync([spec(1), spec(2), spec(3)], 0.0)

    changes = table.sync([spec(1), spec(2, zone="b"), spec(4)], 1.0)

    assert changes == TableChanges(added=("10.0.0.4:8000",), removed=(E3,), updated=(E2,))
    assert changes
    assert [e.address for e in table.pool.endpoints] == [E1, E2, "10.0.0.4:8000"]


def test_a_sync_that_changes_nothing_keeps_the_pool(table):
    table.sync([spec(1, zone="a")], 0.0)
    before = table.pool

    assert not table.sync([spec(1, zone="a")], 5.0)
    assert table.pool is before


def test_changed_labels_keep_slot_and_incarnation(table, harness):
    table.sync([spec(1, zone="a")], 0.0)
    before = table.pool.endpoints[0]

    table.sync([spec(1, zone="b")], 5.0)

    after = table.pool.endpoints[0]
    assert after.spec.labels == {"zone": "b"}
    assert (after.slot, after.incarnation, after.added_at) == (before.slot, before.incarnation, 0.0)
    assert harness.lost == []


def test_of_two_specs_with_one_address_the_later_counts(table):
    table.sync([spec(1, zone="a"), spec(1, zone="b")], 0.0)

    assert [e.spec.labels for e in table.pool.endpoints] == [{"zone": "b"}]


def test_another_uid_is_another_incarnation_in_another_slot(table, harness):
    table.sync([spec(1, uid="a")], 0.0)
    table.set_models(E1, (model("m"),), 0.0)
    old = table.pool.endpoints[0]
    harness.uncleaned.add(old.slot)

    changes = table.sync([spec(1, uid="b")], 5.0)

    new = table.pool.endpoints[0]
    assert changes == TableChanges(added=(E1,), removed=(E1,))
    assert (new.slot, new.models, new.added_at) == (1, None, 5.0)
    assert new.incarnation > old.incarnation
    assert harness.lost == [old.slot]


def test_removing_an_endpoint_tells_that_its_cache_is_lost(table, harness):
    table.sync([spec(1), spec(2)], 0.0)

    assert table.remove(E1)
    assert harness.lost == [0]
    assert [e.address for e in table.pool.endpoints] == [E2]
    assert table.endpoint(E1) is None


def test_removing_what_is_not_there_does_nothing(table, harness):
    assert not table.remove(E1)
    assert harness.lost == []


def test_late_removal_of_an_earlier_uid_leaves_the_present_one(table):
    table.add(spec(1, uid="a"), 0.0)
    table.add(spec(1, uid="b"), 1.0)

    assert not table.remove(E1, uid="a")
    assert table.endpoint(E1).spec.uid == "b"
    assert table.remove(E1, uid="b")


def test_adding_again_while_the_delete_is_under_way_ends_with_the_endpoint_present(table):
    table.add(spec(1), 0.0)
    table.remove(E1)
    table.add(spec(1), 0.0)

    assert [e.address for e in table.pool.endpoints] == [E1]


def test_late_releases_of_an_old_incarnation_never_reach_the_new_one(table, harness):
    ledger = harness.ledger
    table.add(spec(1, uid="1"), 0.0)
    old = table.endpoint(E1)
    epochs = [ledger.take(old.slot, 100) for _ in range(3)]
    table.remove(E1)
    table.add(spec(1, uid="2"), 1.0)
    new = table.endpoint(E1)
    ledger.take(new.slot, 40)

    for epoch in epochs:
        ledger.release_tokens(old.slot, 100, epoch)
        ledger.release_request(old.slot, epoch)
    table.remove(E1, uid="1")

    assert table.endpoint(E1) is new
    assert ledger.requests[new.slot] == 1
    assert ledger.tokens[new.slot] == 40
    assert ledger.requests[old.slot] == 0


def test_a_slot_is_reused_lowest_first_once_it_is_clean(table):
    table.sync([spec(1), spec(2), spec(3)], 0.0)
    table.sync([spec(3)], 1.0)

    table.sync([spec(3), spec(4), spec(5), spec(6)], 2.0)

    assert [(e.slot, e.spec.host) for e in table.pool.endpoints] == [
        (0, "10.0.0.4"),
        (1, "10.0.0.5"),
        (2, "10.0.0.3"),
        (3, "10.0.0.6"),
    ]


def test_a_slot_with_index_entries_is_not_reused(table, harness):
    table.sync([spec(1)], 0.0)
    harness.uncleaned.add(0)
    table.sync([spec(2)], 1.0)
    assert table.endpoint(E2).slot == 1

    harness.uncleaned.clear()
    table.sync([spec(2), spec(3)], 2.0)
    assert table.endpoint(E3).slot == 0


def test_a_slot_with_requests_in_flight_is_not_reused(table, harness):
    table.sync([spec(1)], 0.0)
    harness.ledger.take(0, 0)

    table.sync([spec(2)], 1.0)

    assert table.endpoint(E2).slot == 1


def test_a_reused_slot_starts_with_a_clean_ledger(table, harness):
    table.sync([spec(1)], 0.0)
    harness.ledger.release_request(0, harness.ledger.take(0, 0))
    assert harness.ledger.last_picked == [1]

    table.sync([spec(2)], 1.0)

    assert table.endpoint(E2).slot == 0
    assert harness.ledger.last_picked == [0]


def test_a_scrape_replaces_the_snapshot_and_makes_it_fresh(table):
    table.add(spec(1), 0.0)
    table.update_metrics(E1, scraped(waiting=3.0, kv_usage=0.5), 1.0)

    endpoint = table.update_metrics(E1, scraped(waiting=4.0), 2.0)

    assert endpoint is table.pool.endpoints[0]
    assert endpoint.fresh
    assert (endpoint.metrics.waiting, endpoint.metrics.kv_usage) == (4.0, None)


def test_a_scrape_that_says_the_same_keeps_the_pool(table):
    table.add(spec(1), 0.0)
    table.update_metrics(E1, scraped(waiting=3.0), 1.0)
    before = table.pool

    table.update_metrics(E1, scraped(waiting=3.0), 2.0)

    assert table.pool is before
    assert table.reports(E1).scraped_at == 2.0


@pytest.mark.parametrize(
    "before, after",
    [
        (scraped(process_start=100.0), scraped(process_start=200.0)),
        (scraped(prompt_tokens_total=50.0), scraped(prompt_tokens_total=49.0)),
        (scraped(generation_tokens_total=50.0), scraped(generation_tokens_total=0.0)),
        (
            scraped(cached_tokens_by_source={"device": 5.0, "host": 9.0}),
            scraped(cached_tokens_by_source={"device": 6.0, "host": 8.0}),
        ),
    ],
    ids=["start time", "prompt counter", "generation counter", "cached counter"],
)
def test_a_restart_ends_the_incarnation_and_starts_the_endpoint_anew(table, harness, before, after):
    table.add(spec(1), 0.0)
    table.set_models(E1, (model("m"),), 0.0)
    table.update_metrics(E1, before, 1.0)
    old = table.endpoint(E1)

    new = table.update_metrics(E1, after, 60.0)

    assert new.incarnation > old.incarnation
    assert (new.slot, new.added_at, new.metrics, new.fresh) == (old.slot, 60.0, after, True)
    assert new.models == old.models
    assert harness.lost == [0]


@pytest.mark.parametrize(
    "after",
    [
        scraped(process_start=100.0, prompt_tokens_total=50.0),
        scraped(process_start=100.0, prompt_tokens_total=51.0),
        scraped(),
    ],
    ids=["same", "grown", "page without them"],
)
def test_counters_that_stand_grow_or_are_absent_are_no_restart(table, harness, after):
    table.add(spec(1), 0.0)
    table.update_metrics(E1, scraped(process_start=100.0, prompt_tokens_total=50.0), 1.0)

    table.update_metrics(E1, after, 2.0)

    assert harness.lost == []


def test_a_restart_is_seen_across_pages_that_lack_the_counters(table, harness):
    table.add(spec(1), 0.0)
    for page in (scraped(process_start=100.0), scraped(), scraped(process_start=200.0)):
        table.update_metrics(E1, page, 1.0)

    assert harness.lost == [0]


def test_after_a_restart_counters_are_compared_with_those_of_the_new_process(table, harness):
    table.add(spec(1), 0.0)
    for total in (50.0, 0.0, 10.0, 20.0):
        table.update_metrics(E1, scraped(prompt_tokens_total=total), 1.0)

    assert harness.lost == [0]


def test_falling_asleep_ends_the_incarnation_once(table, harness):
    table.add(spec(1), 0.0)
    for awake in (True, False, False, None, True):
        table.update_metrics(E1, scraped(awake=awake), 1.0)
    assert harness.lost == [0]

    table.update_metrics(E1, scraped(awake=False), 2.0)
    assert harness.lost == [0, 0]
    assert table.endpoint(E1).added_at == 0.0


def test_a_cache_reset_through_us_ends_the_incarnation_and_keeps_the_rest(table, harness):
    table.sync([spec(1), spec(2)], 0.0)
    table.update_metrics(E1, scraped(waiting=1.0), 1.0)
    old = table.endpoint(E1)

    table.end_incarnation(E1)

    new = table.endpoint(E1)
    assert new.incarnation > old.incarnation
    assert dataclasses.replace(new, incarnation=old.incarnation).metrics is old.metrics
    assert harness.lost == [0]


def test_requests_in_flight_stay_counted_when_the_incarnation_ends_in_place(table, harness):
    table.add(spec(1), 0.0)
    harness.ledger.take(0, 10)

    table.end_incarnation(E1)

    assert harness.ledger.requests == [1]


def test_incarnations_are_never_used_twice(table):
    table.add(spec(1), 0.0)
    seen = [table.endpoint(E1).incarnation]
    table.end_incarnation(E1)
    seen.append(table.endpoint(E1).incarnation)
    table.remove(E1)
    table.add(spec(1), 0.0)
    seen.append(table.endpoint(E1).incarnation)

    assert seen == sorted(set(seen))


def test_late_reports_about_an_earlier_incarnation_do_nothing(table):
    table.add(spec(1), 0.0)
    old = table.endpoint(E1).incarnation
    table.end_incarnation(E1)
    before = table.pool

    assert table.update_metrics(E1, scraped(waiting=1.0), 1.0, incarnation=old) is None
    table.set_models(E1, (model("m"),), 1.0, incarnation=old)
    table.scrape_failed(E1, 1.0, incarnation=old)

    assert table.pool is before
    assert table.reports(E1) == ReportState()


def test_reports_about_an_address_that_is_gone_do_nothing(table, harness):
    table.update_metrics(E1, scraped(), 1.0)
    table.scrape_failed(E1, 1.0)
    table.set_models(E1, (), 1.0)
    table.mark_draining(E1)
    table.end_incarnation(E1)

    assert table.pool.endpoints == ()
    assert table.reports(E1) is None
    assert harness.lost == []


def test_metrics_go_stale_after_the_threshold_and_fresh_again_with_the_next_scrape(table):
    table.add(spec(1), 0.0)
    table.update_metrics(E1, scraped(waiting=1.0), 10.0)

    table.refresh_staleness(12.0, 2.0)
    assert table.endpoint(E1).fresh
    table.refresh_staleness(12.1, 2.0)
    assert not table.endpoint(E1).fresh
    assert table.endpoint(E1).metrics == scraped(waiting=1.0)
    table.update_metrics(E1, scraped(waiting=1.0), 13.0)
    assert table.endpoint(E1).fresh


def test_a_longer_threshold_makes_them_fresh_again(table):
    table.add(spec(1), 0.0)
    table.update_metrics(E1, scraped(waiting=1.0), 10.0)
    table.refresh_staleness(13.0, 2.0)

    table.refresh_staleness(13.0, 5.0)

    assert table.endpoint(E1).fresh


def test_staleness_that_does_not_change_keeps_the_pool(table):
    table.sync([spec(1), spec(2)], 0.0)
    table.update_metrics(E1, scraped(waiting=1.0), 10.0)
    before = table.pool

    table.refresh_staleness(11.0, 2.0)

    assert table.pool is before
    assert not table.endpoint(E2).fresh


def test_failed_scrapes_are_counted_and_keep_the_last_good_values(table):
    table.add(spec(1), 0.0)
    table.update_metrics(E1, scraped(waiting=1.0), 1.0)

    table.scrape_failed(E1, 2.0)
    table.scrape_failed(E1, 3.0)

    assert table.reports(E1) == ReportState(scraped_at=1.0, failing_since=2.0, failures=2)
    assert table.endpoint(E1).fresh
    table.update_metrics(E1, scraped(waiting=1.0), 4.0)
    assert table.reports(E1) == ReportState(scraped_at=4.0)


def test_models_are_kept_with_the_time_they_were_told(table):
    table.add(spec(1), 0.0)

    table.set_models(E1, (model("m"),), 7.0)

    assert table.endpoint(E1).models == (model("m"),)
    assert table.reports(E1).models_at == 7.0


def test_a_draining_endpoint_stays_in_the_pool_and_can_come_back(table):
    table.add(spec(1), 0.0)

    table.mark_draining(E1)
    assert [e.draining for e in table.pool.endpoints] == [True]
    table.mark_draining(E1, draining=False)
    assert [e.draining for e in table.pool.endpoints] == [False]


def test_version_changes_with_everything_and_topology_only_with_members_incarnations_and_models(table):
    table.add(spec(1), 0.0)
    steps = [(table.pool.version, table.pool.topology)]
    for change in (
        lambda: table.update_metrics(E1, scraped(waiting=1.0), 1.0),
        lambda: table.mark_draining(E1),
        lambda: table.end_incarnation(E1),
        lambda: table.refresh_staleness(99.0, 1.0),
        lambda: table.set_models(E1, (model("m"),), 1.0),
        lambda: table.add(spec(2), 1.0),
        lambda: table.remove(E1),
    ):
        change()
        steps.append((table.pool.version, table.pool.topology))

    versions, topologies = zip(*steps, strict=True)
    assert len(set(versions)) == 8
    assert [t - topologies[0] for t in topologies] == [0, 0, 0, 1, 1, 2, 3, 4]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["sync", "scrape", "reset", "clean", "take", "end"]),
            st.sets(st.integers(1, 4)),
            st.integers(0, 3),
        ),
        max_size=40,
    )
)
def test_members_are_what_was_synced_and_slots_are_never_shared(steps):
    harness = Harness()
    table, ledger = harness.table, harness.ledger
    flying: list[tuple[int, int]] = []
    wanted: set[int] = set()
    version = table.pool.version

    for step, members, index in steps:
        if step == "sync":
            wanted = members
            table.sync([spec(m) for m in sorted(members)], 0.0)
        elif step == "scrape":
            table.update_metrics(f"10.0.0.{index + 1}:8000", scraped(process_start=float(len(members))), 0.0)
        elif step == "reset":
            table.end_incarnation(f"10.0.0.{index + 1}:8000")
        elif step == "clean":
            harness.uncleaned.clear()
        elif step == "take" and table.pool.endpoints:
            slot = table.pool.endpoints[index % len(table.pool.endpoints)].slot
            flying.append((slot, ledger.take(slot, 0)))
        elif step == "end" and flying:
            ledger.release_request(*flying.pop(index % len(flying)))
        harness.uncleaned.update(harness.lost)
        harness.lost.clear()

        endpoints = table.pool.endpoints
        assert {e.address for e in endpoints} == {f"10.0.0.{m}:8000" for m in wanted}
        slots = [e.slot for e in endpoints]
        assert slots == sorted(set(slots))
        assert ledger.requests == [sum(slot == s for slot, _ in flying) for s in range(len(ledger.requests))]
        assert table.pool.version >= version
        version = table.pool.version


def test_a_new_incarnation_in_place_is_another_topology_so_that_whoever_asks_endpoints_follows(
    table, harness
):
    table.sync([spec(1)], 0.0)
    table.update_metrics(E1, scraped(process_start=1.0), 1.0)
    before = table.pool.topology
    table.update_metrics(E1, scraped(process_start=1.0, waiting=3.0), 2.0)

    assert table.pool.topology == before
    table.update_metrics(E1, scraped(process_start=2.0), 3.0)
    assert table.pool.topology != before


@pytest.fixture
def large_table(table) -> EndpointTable:
    """33 endpoints."""
    table.sync([EndpointSpec("http", f"10.0.0.{number}", 8000) for number in range(33)], 0.0)
    return table


def test_scrapes_of_a_large_pool_show_when_they_are_published(large_table):
    table = large_table
    first = table.update_metrics(E1, EndpointMetrics(waiting=1.0), 1.0)
    assert table.pool.by_address[E1] is first  # another state than before: at once
    version = table.pool.version
    second = table.update_metrics(E1, EndpointMetrics(waiting=2.0), 2.0)
    assert table.endpoint(E1) is second
    assert (table.pool.version, table.pool.by_address[E1]) == (version, first)
    table.publish()
    assert table.pool.by_address[E1] is second
    assert table.pool.version > version
    published = table.pool
    table.update_metrics(E1, EndpointMetrics(waiting=2.0), 3.0)
    table.publish()
    assert table.pool is published


def test_what_is_no_number_shows_at_once_in_a_large_pool(large_table):
    table = large_table
    for awake in (True, False):
        table.update_metrics(E1, EndpointMetrics(awake=awake), 1.0)
        assert table.pool.by_address[E1].metrics.awake is awake


def test_a_change_of_the_pool_shows_the_scrapes_that_wait(large_table):
    table = large_table
    table.update_metrics(E1, EndpointMetrics(waiting=1.0), 1.0)
    assert table.pool
    table.update_metrics(E1, EndpointMetrics(waiting=2.0), 2.0)
    table.mark_draining(E2)
    pool = table.pool
    assert pool.by_address[E1].metrics.waiting == 2.0
    table.publish()
    assert table.pool is pool
