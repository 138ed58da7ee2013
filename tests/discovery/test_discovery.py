"""Several sources, one pool."""

import asyncio
import contextlib

import pytest

from epp.clock import ManualClock
from epp.discovery.discovery import Discovery, SourceError, SourceReport
from epp.endpoints.types import EndpointSpec
from tests.discovery.kit import addresses


class Puppet:
    """A source that tells what the test says; `words` before it runs are its first look."""

    def __init__(self, name, *words):
        self.name = name
        self.words = list(words)
        self.runs = 0
        self.ended = False

    async def run(self, sink):
        self.runs += 1
        self.sink = sink
        for word in self.words:
            self.say(word)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True

    def say(self, word):
        """A text is a failure, a list of hosts a set."""
        if isinstance(word, Exception):
            raise word
        if isinstance(word, str):
            self.sink.fail(word)
        else:
            self.sink.publish([EndpointSpec("http", host, 8000) for host in word])


class Log:
    def __init__(self, name, lines):
        self.name, self.lines, self.broken = name, lines, False

    def failed(self, detail, now):
        self.broken = True
        self.lines.append(f"{self.name}: {detail} at {now:g}")

    def worked(self):
        if self.broken:
            self.lines.append(f"{self.name}: works")
        self.broken = False


class Stage:
    def __init__(self, *sources):
        self.pools, self.lines, self.conflicts = [], [], []
        self.pauses = asyncio.Queue()
        self.news = asyncio.Event()
        self.discovery = Discovery(
            sources,
            self.on_endpoints,
            clock=ManualClock(now=7.0),
            pause=self.pause,
            failure_log=lambda name: Log(name, self.lines),
            on_conflict=self.conflicts.append,
        )

    def on_endpoints(self, specs):
        self.pools.append(addresses(specs))
        self.news.set()

    async def pause(self, seconds):
        self.lines.append(f"pause {seconds:g}")
        return await self.pauses.get()


@contextlib.asynccontextmanager
async def running(*sources, wait_s=10.0):
    stage = Stage(*sources)
    await stage.discovery.start(wait_s)
    try:
        yield stage
    finally:
        await stage.discovery.stop()


async def test_after_the_start_the_pool_is_what_all_sources_found():
    one, two = Puppet("one", ["a", "b"]), Puppet("two", ["b", "c"])
    async with running(one, two) as stage:
        assert stage.pools[-1] == ["a:8000", "b:8000", "c:8000"]
    assert one.ended
    assert two.ended


async def test_without_sources_there_is_nothing_to_wait_for():
    async with running() as stage:
        assert stage.discovery.reports() == ()


async def test_a_source_that_keeps_silent_does_not_hold_up_the_start():
    async with running(Puppet("slow"), Puppet("fast", ["a"]), wait_s=0.01) as stage:
        assert stage.pools == [["a:8000"]]
        assert stage.discovery.reports()[0] == SourceReport("slow", None, None, 0)


async def test_the_pool_follows_every_source():
    one, two = Puppet("one", ["a"]), Puppet("two", ["b"])
    async with running(one, two) as stage:
        one.say(["a", "c"])
        two.say([])

        assert stage.pools[-2:] == [["a:8000", "c:8000", "b:8000"], ["a:8000", "c:8000"]]


async def test_an_endpoint_stays_as_long_as_one_source_names_it():
    one, two = Puppet("one", ["a"]), Puppet("two", ["a"])
    async with running(one, two) as stage:
        one.say([])
        assert stage.pools[-1] == ["a:8000"]
        two.say([])

        assert stage.pools[-1] == []


async def test_a_failure_changes_nothing_and_is_reported_until_a_look_works():
    one = Puppet("one", ["a"])
    async with running(one) as stage:
        one.say("unreadable")
        one.say("unreadable")
        assert stage.pools == [["a:8000"]]
        assert stage.discovery.reports() == (SourceReport("one", 1, "unreadable", 2),)
        one.say(["a"])

        assert stage.discovery.reports() == (SourceReport("one", 1, None, 2),)
        assert stage.lines == ["one: unreadable at 7", "one: unreadable at 7", "one: works"]


async def test_a_source_that_dies_keeps_its_endpoints_and_is_run_again():
    one, two = Puppet("one", ["a"], ZeroDivisionError("oops")), Puppet("two", ["b"])
    async with running(one, two) as stage:
        assert stage.pools[-1] == ["a:8000", "b:8000"]
        assert stage.lines == ["one: ZeroDivisionError: oops at 7", "pause 5"]
        one.words = [["c"]]
        stage.news.clear()
        stage.pauses.put_nowait(False)
        await stage.news.wait()

        assert stage.pools[-1] == ["c:8000", "b:8000"]
        assert one.runs == 2
        assert stage.discovery.reports()[0].problem is None


async def test_a_source_that_ends_keeps_its_endpoints():
    class Ending(Puppet):
        async def run(self, sink):
            self.sink = sink
            self.say(["a"])

    two = Puppet("two", ["b"])
    async with running(Ending("one"), two) as stage:
        two.say(["c"])

        assert stage.pools[-1] == ["a:8000", "c:8000"]


async def test_each_contradiction_is_told_once():
    one, two = Puppet("one", ["a"]), Puppet("two")
    async with running(one, two, wait_s=0.01) as stage:
        for _ in range(2):
            two.sink.publish([EndpointSpec("https", "a", 8000)])

        assert stage.conflicts == ["a:8000 is http by one, https by two"]


async def test_replaced_sources_go_when_the_new_ones_have_been_heard():
    one, two, three = Puppet("one", ["a"]), Puppet("two", ["b"]), Puppet("three", ["c"])
    async with running(one, two) as stage:
        await stage.discovery.replace([two, three], 10.0)

        assert one.ended
        assert not two.ended
        assert two.runs == 1
        assert stage.pools[-1] == ["b:8000", "c:8000"]
        assert [r.name for r in stage.discovery.reports()] == ["two", "three"]


async def test_no_pool_in_between_lacks_what_old_and_new_sources_share():
    one, two = Puppet("one", ["a", "b"]), Puppet("two", ["b", "c"])
    async with running(one) as stage:
        await stage.discovery.replace([two], 10.0)

        assert all("b:8000" in pool for pool in stage.pools)
        assert stage.pools[-1] == ["b:8000", "c:8000"]


@pytest.mark.parametrize(
    "words, problem", [(["unreadable"], "two: unreadable"), ([], "two: has not been read in time")]
)
async def test_a_new_source_that_finds_nothing_leaves_everything_as_it_was(words, problem):
    one, two = Puppet("one", ["a"]), Puppet("two", *words)
    async with running(one) as stage:
        with pytest.raises(SourceError, match=f"^{problem}$"):
            await stage.discovery.replace([two], 0.01)

        assert two.ended
        assert not one.ended
        assert stage.pools == [["a:8000"]]
        assert [r.name for r in stage.discovery.reports()] == ["one"]


async def test_the_same_sources_again_change_nothing():
    one = Puppet("one", ["a"])
    async with running(one) as stage:
        await stage.discovery.replace([Puppet("one")], 10.0)

        assert (one.runs, one.ended) == (1, False)
        assert stage.pools[-1] == ["a:8000"]
