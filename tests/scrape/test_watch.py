"""One task for each endpoint."""

import asyncio

import pytest

from epp.scrape.watch import Watch
from tests.scrape.fakes import endpoint, settle


class Runs:
    """Remembers which endpoints began and ended."""

    def __init__(self):
        self.began = []
        self.ended = []
        self.watched = {}

    async def run(self, watched):
        address = watched.endpoint.address
        self.began.append(address)
        self.watched[address] = watched
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(address)


@pytest.fixture
def runs():
    return Runs()


E1, E2, E3 = (f"10.0.0.{last}:8000" for last in (1, 2, 3))


async def test_endpoints_noted_before_the_start_begin_with_it(runs):
    watch = Watch(runs.run)
    watch.sync([endpoint(1), endpoint(2)])
    await settle()
    before = runs.began[:]
    watch.start()
    await settle()

    assert (before, runs.began) == ([], [E1, E2])
    await watch.stop()


async def test_endpoints_come_and_go_while_it_runs(runs):
    watch = Watch(runs.run)
    watch.start()
    watch.sync([endpoint(1), endpoint(2)])
    await settle()
    watch.sync([endpoint(2), endpoint(3)])
    await settle()

    assert (runs.began, runs.ended) == ([E1, E2, E3], [E1])
    await watch.stop()


async def test_stop_ends_every_task_and_waits_for_it(runs):
    watch = Watch(runs.run)
    watch.start()
    watch.sync([endpoint(1), endpoint(2)])
    await settle()
    watch.sync([endpoint(2)])
    await watch.stop()
    await watch.stop()

    assert sorted(runs.ended) == [E1, E2]


async def test_endpoint_that_goes_before_its_task_ran_is_never_run(runs):
    watch = Watch(runs.run)
    watch.start()
    watch.sync([endpoint(1)])
    watch.sync([])
    await settle()

    assert (runs.began, watch._ending) == ([], set())


async def test_task_sees_the_latest_endpoint(runs):
    watch = Watch(runs.run)
    watch.start()
    watch.sync([endpoint(1)])
    await settle()
    newest = endpoint(1, incarnation=2)
    watch.sync([newest])
    await settle()

    assert runs.began == [E1]
    assert runs.watched[E1].endpoint is newest
    await watch.stop()


async def test_new_incarnation_begins_anew_where_asked_for(runs):
    watch = Watch(runs.run, anew=True)
    watch.start()
    watch.sync([endpoint(1)])
    await settle()
    watch.sync([endpoint(1)])
    await settle()
    same = runs.began[:]
    watch.sync([endpoint(1, incarnation=2)])
    await settle()

    assert same == [E1]
    assert (runs.began, runs.ended) == ([E1, E1], [E1])
    await watch.stop()


async def test_endpoints_are_numbered_as_they_come(runs):
    watch = Watch(runs.run)
    watch.start()
    watch.sync([endpoint(1), endpoint(2)])
    watch.sync([endpoint(1), endpoint(3)])
    await settle()

    assert {address: watched.number for address, watched in runs.watched.items()} == {E1: 0, E3: 2}
    await watch.stop()


async def test_one_endpoint_can_be_begun_anew(runs):
    watch = Watch(runs.run)
    watch.start()
    watch.sync([endpoint(1), endpoint(2)])
    await settle()
    watch.restart(E1)
    watch.restart("10.9.9.9:1")
    await settle()

    assert (runs.began, runs.ended) == ([E1, E2, E1], [E1])
    await watch.stop()
