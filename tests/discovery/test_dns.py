"""When names are looked up, and what their answers mean."""

import asyncio

import pytest

from epp.discovery.dns import DnsPolicy, DnsSource
from epp.discovery.resolver import Answer, Record
from epp.endpoints.dns_name import parse_dns_name
from tests.discovery.kit import FakeResolver, Pauses, Recorder, addresses, running

NAME = "vllm.internal"
SRV = "_http._tcp.vllm.internal"


class Stage:
    """A source over a resolver whose records a test writes as `stage[name, kind] = hosts`."""

    def __init__(self, text=f"http://{NAME}:8000", ttl_s=None, **policy):
        self.resolver, self.pauses = FakeResolver(ttl_s), Pauses()
        self.source = DnsSource(
            parse_dns_name(text), self.resolver, pause=self.pauses, policy=DnsPolicy(5.0, 30.0, **policy)
        )

    def __setitem__(self, key, hosts):
        self.resolver.records[key] = hosts

    def running(self):
        return running(self.source, self.pauses)

    def waited(self):
        return self.pauses.waited[-1]


@pytest.mark.parametrize(
    "ttl_s, waits_s", [(None, 5.0), (0.0, 5.0), (4.9, 5.0), (12.0, 12.0), (30.0, 30.0), (86_400.0, 30.0)]
)
async def test_the_next_look_is_when_the_ttl_ends_within_bounds(ttl_s, waits_s):
    stage = Stage(ttl_s=ttl_s)
    stage[NAME, "A"] = ["10.0.0.1"]
    async with stage.running():
        assert stage.waited() == waits_s


async def test_the_shortest_ttl_of_all_look_ups_counts():
    stage = Stage(f"srv+http://{SRV}")

    async def look_up(name, kind):
        return {
            "SRV": Answer((Record("pod.x", 8000),), 20.0),
            "A": Answer((Record("10.0.0.1"),), 9.0),
            "AAAA": Answer(),
        }[kind]

    stage.resolver.look_up = look_up
    async with stage.running():
        assert stage.waited() == 9.0


async def test_after_a_failure_the_next_look_comes_soon():
    stage = Stage(ttl_s=25.0)
    stage[NAME, "A"], stage[NAME, "AAAA"] = ["10.0.0.1"], "timed out"
    async with stage.running():
        assert stage.waited() == 5.0


async def test_both_families_are_endpoints():
    stage = Stage()
    stage[NAME, "A"], stage[NAME, "AAAA"] = ["10.0.0.2", "10.0.0.1"], ["fd00::10"]
    async with stage.running() as told:
        assert addresses(told.specs) == ["10.0.0.1:8000", "10.0.0.2:8000", "[fd00::10]:8000"]
        assert {s.name for s in told.specs} == {""}


async def test_an_answer_in_another_order_is_the_same_set():
    stage = Stage()
    stage[NAME, "A"] = ["10.0.0.2", "10.0.0.1"]
    async with stage.running() as told:
        before = told.specs
        stage[NAME, "A"] = ["10.0.0.1", "10.0.0.2"]
        await stage.pauses.next()

        assert told.specs == before


async def test_an_address_that_is_missing_among_others_is_gone_at_once():
    stage = Stage()
    stage[NAME, "A"] = ["10.0.0.1", "10.0.0.2"]
    async with stage.running() as told:
        stage[NAME, "A"] = ["10.0.0.2"]
        await stage.pauses.next()

        assert addresses(told.specs) == ["10.0.0.2:8000"]


async def test_half_an_answer_takes_nothing_away_and_adds_what_is_new():
    stage = Stage()
    stage[NAME, "A"], stage[NAME, "AAAA"] = ["10.0.0.1"], ["fd00::1"]
    async with stage.running() as told:
        stage[NAME, "A"], stage[NAME, "AAAA"] = ["10.0.0.2"], "SERVFAIL"
        await stage.pauses.next()

        assert addresses(told.specs) == ["10.0.0.2:8000", "[fd00::1]:8000"]
        assert told.problem == f"AAAA of {NAME}: SERVFAIL"


async def test_a_family_that_always_fails_does_not_keep_the_other_from_shrinking():
    stage = Stage()
    stage[NAME, "A"], stage[NAME, "AAAA"] = ["10.0.0.1", "10.0.0.2"], "SERVFAIL"
    async with stage.running() as told:
        stage[NAME, "A"] = ["10.0.0.2"]
        await stage.pauses.next()

        assert addresses(told.specs) == ["10.0.0.2:8000"]


async def test_a_name_without_addresses_keeps_its_endpoints_until_looks_in_a_row_agree():
    stage = Stage(confirmations=3)
    stage[NAME, "A"] = ["10.0.0.1"]
    async with stage.running() as told:
        stage[NAME, "A"] = []
        for _ in range(2):
            await stage.pauses.next()
            assert addresses(told.specs) == ["10.0.0.1:8000"]
            assert told.problem == f"{NAME} has no addresses"
            assert stage.waited() == 5.0
        await stage.pauses.next()

        assert told.specs == ()
        assert told.problem == f"{NAME} has no addresses"


async def test_an_answer_in_between_begins_the_count_anew():
    stage = Stage(confirmations=2)
    stage[NAME, "A"] = ["10.0.0.1"]
    async with stage.running() as told:
        for hosts in ([], ["10.0.0.1"], []):
            stage[NAME, "A"] = hosts
            await stage.pauses.next()

        assert addresses(told.specs) == ["10.0.0.1:8000"]


async def test_a_failed_look_confirms_nothing():
    stage = Stage(confirmations=2)
    stage[NAME, "A"] = ["10.0.0.1"]
    async with stage.running() as told:
        stage[NAME, "A"] = []
        await stage.pauses.next()
        stage[NAME, "A"] = stage[NAME, "AAAA"] = "timed out"
        await stage.pauses.next()

        assert addresses(told.specs) == ["10.0.0.1:8000"]
        assert told.problem == f"A of {NAME}: timed out; AAAA of {NAME}: timed out"


async def test_an_unconfirmed_emptiness_is_not_what_a_failure_falls_back_to():
    stage = Stage(confirmations=3)
    stage[NAME, "A"], stage[NAME, "AAAA"] = ["10.0.0.1"], ["fd00::1"]
    async with stage.running() as told:
        stage[NAME, "A"] = stage[NAME, "AAAA"] = []
        await stage.pauses.next()
        stage[NAME, "A"], stage[NAME, "AAAA"] = ["10.0.0.1"], "timed out"
        await stage.pauses.next()

        assert addresses(told.specs) == ["10.0.0.1:8000", "[fd00::1]:8000"]


async def test_a_confirmed_emptiness_stays_confirmed():
    stage = Stage(confirmations=1)
    stage[NAME, "A"] = ["10.0.0.1"]
    async with stage.running() as told:
        stage[NAME, "A"] = []
        await stage.pauses.next()
        stage[NAME, "A"] = "timed out"
        await stage.pauses.next()

        assert told.specs == ()


async def test_services_tell_ports_and_names_and_labels_are_the_settings():
    stage = Stage(f"srv+https://{SRV},zone=a")
    stage[SRV, "SRV"] = [("pod-0.x", 8000), ("pod-1.x", 8001)]
    stage["pod-0.x.", "A"], stage["pod-1.x.", "AAAA"] = ["10.0.0.1"], ["fd00::1"]
    async with stage.running() as told:
        assert [(s.url, s.name, dict(s.labels)) for s in told.specs] == [
            ("https://10.0.0.1:8000", "pod-0.x", {"zone": "a"}),
            ("https://[fd00::1]:8001", "pod-1.x", {"zone": "a"}),
        ]


async def test_a_target_without_addresses_is_no_endpoint():
    stage = Stage(f"srv+http://{SRV}")
    stage[SRV, "SRV"] = [("pod-0.x", 8000), ("starting.x", 8000)]
    stage["pod-0.x.", "A"] = ["10.0.0.1"]
    async with stage.running() as told:
        assert addresses(told.specs) == ["10.0.0.1:8000"]
        assert told.problem is None


async def test_a_target_that_cannot_be_looked_up_keeps_its_addresses():
    stage = Stage(f"srv+http://{SRV}")
    stage[SRV, "SRV"] = [("pod-0.x", 8000), ("pod-1.x", 8000)]
    stage["pod-0.x.", "A"], stage["pod-1.x.", "A"] = ["10.0.0.1"], ["10.0.0.2"]
    async with stage.running() as told:
        stage["pod-1.x.", "A"] = "timed out"
        await stage.pauses.next()
        assert addresses(told.specs) == ["10.0.0.1:8000", "10.0.0.2:8000"]
        stage[SRV, "SRV"] = [("pod-0.x", 8000)]
        await stage.pauses.next()

        assert addresses(told.specs) == ["10.0.0.1:8000"]


async def test_targets_with_one_address_and_port_are_one_endpoint():
    stage = Stage(f"srv+http://{SRV}")
    stage[SRV, "SRV"] = [("a.x", 8000), ("b.x", 8000), ("b.x", 8001)]
    stage["a.x.", "A"] = stage["b.x.", "A"] = ["10.0.0.1"]
    async with stage.running() as told:
        assert addresses(told.specs) == ["10.0.0.1:8000", "10.0.0.1:8001"]


async def test_no_more_than_sixteen_look_ups_are_under_way():
    stage = Stage(f"srv+http://{SRV}")
    stage[SRV, "SRV"] = [(f"pod-{n}.x", 8000) for n in range(100)]
    for n in range(100):
        stage[f"pod-{n}.x.", "A"] = [f"10.0.1.{n}"]
    look_up, under_way, most = stage.resolver.look_up, 0, 0

    async def counted(name, kind):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return await look_up(name, kind)

    stage.resolver.look_up = counted
    async with stage.running() as told:
        assert len(told.specs) == 100
    assert most == 16


async def test_a_resolver_that_breaks_ends_the_run():
    """Whoever runs sources says so, and runs this one again."""
    stage = Stage()

    async def look_up(name, kind):
        raise ZeroDivisionError

    stage.resolver.look_up = look_up
    with pytest.raises(ZeroDivisionError):
        await stage.source.run(Recorder())
