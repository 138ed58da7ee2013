"""D04 (PS p768): events that came before the loop was ready crashed the start. Three endpoints exist before it."""

from epp.discovery.static import StaticSource
from tests.discovery.test_discovery import Puppet, running


async def test_what_exists_before_the_start_is_all_there_after_it():
    early = Puppet("early", ["a"], ["a", "b"], ["a", "b", "c"])
    async with running(early, StaticSource.parse(["http://d:8000"])) as stage:
        assert stage.pools[-1] == ["a:8000", "b:8000", "c:8000", "d:8000"]


async def test_two_routers_over_the_same_sources_have_the_same_set():
    pools = []
    for _ in range(2):
        async with running(Puppet("one", ["a", "b"]), Puppet("two", ["c"])) as stage:
            pools.append(stage.pools[-1])

    assert pools == [["a:8000", "b:8000", "c:8000"]] * 2
