"""What every discovery source does, whatever it asks.

A rig is an asynchronous context manager around one source and the world that it looks at:

    source            what is tested
    pauses            the pauses that its loop was given
    follows           whether the set can change while it runs
    labels            labels that each endpoint of the world has
    offer(*addresses) make the world tell exactly these endpoints, `host:port` each
    spoil()           make the world tell nothing
"""

from tests.discovery.kit import addresses, running

E1, E2, E3, V6 = "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000", "[fd00::10]:8000"


async def the_first_look_tells_the_whole_set(rig):
    await rig.offer(E1, E2)
    async with running(rig.source, rig.pauses, ends=not rig.follows) as told:
        assert sorted(addresses(told.specs)) == [E1, E2]
        assert told.problem is None
        assert [(s.scheme, dict(s.labels)) for s in told.specs] == [("http", rig.labels)] * 2


async def ipv6_is_an_address_like_any_other(rig):
    await rig.offer(V6, E1)
    async with running(rig.source, rig.pauses, ends=not rig.follows) as told:
        assert sorted(addresses(told.specs)) == [E1, V6]
        assert {s.host for s in told.specs} == {"10.0.0.1", "fd00::10"}


async def a_change_replaces_the_set(rig):
    await rig.offer(E1, E2)
    async with running(rig.source, rig.pauses) as told:
        await rig.offer(E2, E3)
        await rig.pauses.next()

        assert sorted(addresses(told.specs)) == [E2, E3]


async def endpoints_that_stay_are_told_equal(rig):
    await rig.offer(E1, E2)
    async with running(rig.source, rig.pauses) as told:
        before = {s.address: s for s in told.specs}
        await rig.offer(E3, E2)
        await rig.pauses.next()

        assert {s.address: s for s in told.specs}[E2] == before[E2]


async def a_failure_is_told_and_leaves_the_set(rig):
    await rig.offer(E1, E2)
    async with running(rig.source, rig.pauses) as told:
        await rig.spoil()
        await rig.pauses.next()

        assert told.problem
        assert "\n" not in told.problem
        assert sorted(addresses(told.specs)) == [E1, E2]


async def what_works_again_is_told_even_if_nothing_changed(rig):
    await rig.offer(E1)
    async with running(rig.source, rig.pauses) as told:
        await rig.spoil()
        await rig.pauses.next()
        await rig.offer(E1)
        await rig.pauses.next()

        assert told.problem is None
        assert addresses(told.specs) == [E1]


async def a_source_that_cannot_begin_says_why_and_goes_on(rig):
    await rig.spoil()
    async with running(rig.source, rig.pauses) as told:
        assert told.specs is None
        assert told.problem
        await rig.offer(E1)
        await rig.pauses.next()

        assert addresses(told.specs) == [E1]
        assert told.problem is None


async def a_pause_that_is_cut_short_leads_to_a_look(rig):
    await rig.offer(E1)
    async with running(rig.source, rig.pauses) as told:
        await rig.offer(E1, E2)
        await rig.pauses.next(rung=True)

        assert sorted(addresses(told.specs)) == [E1, E2]


OF_ALL = (the_first_look_tells_the_whole_set, ipv6_is_an_address_like_any_other)
OF_THOSE_THAT_FOLLOW = (
    a_change_replaces_the_set,
    endpoints_that_stay_are_told_equal,
    a_failure_is_told_and_leaves_the_set,
    what_works_again_is_told_even_if_nothing_changed,
    a_source_that_cannot_begin_says_why_and_goes_on,
    a_pause_that_is_cut_short_leads_to_a_look,
)
