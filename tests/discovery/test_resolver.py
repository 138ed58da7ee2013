"""dnspython behind the port, against a server on loopback."""

import socket

import dns.asyncresolver
import dns.resolver
import pytest

from epp.discovery.dnspython_resolver import DnspythonResolver
from epp.discovery.resolver import Answer, LookupFailedError, Record
from tests.discovery.dns_server import dns_server


@pytest.fixture
async def server():
    async with dns_server() as running:
        yield running


@pytest.fixture
def resolver(server):
    return DnspythonResolver(("127.0.0.1",), server.port, lifetime_s=2.0)


async def test_addresses_come_with_the_ttl(server, resolver):
    server.ttl_s = 17
    server.records["a.test.", "A"] = ["10.0.0.1", "10.0.0.2"]
    server.records["a.test.", "AAAA"] = ["fd00::1"]

    found = await resolver.look_up("a.test", "A")
    assert (sorted(r.host for r in found.records), found.ttl_s) == (["10.0.0.1", "10.0.0.2"], 17.0)
    assert await resolver.look_up("a.test", "AAAA") == Answer((Record("fd00::1"),), 17.0)


async def test_services_come_with_target_and_port_but_for_those_that_are_not_offered(server, resolver):
    server.records["_h._tcp.test.", "SRV"] = ["0 1 8000 a.test.", "5 0 0 b.test.", "0 0 80 ."]

    assert (await resolver.look_up("_h._tcp.test", "SRV")).records == (Record("a.test", 8000),)


async def test_a_service_that_is_not_offered_at_all_has_no_records(server, resolver):
    server.records["_h._tcp.test.", "SRV"] = ["0 0 80 ."]

    assert await resolver.look_up("_h._tcp.test", "SRV") == Answer()


async def test_an_unknown_name_and_one_without_the_kind_are_answers_without_records(server, resolver):
    server.records["a.test.", "A"] = ["10.0.0.1"]

    assert await resolver.look_up("b.test", "A") == Answer()
    assert await resolver.look_up("a.test", "AAAA") == Answer()


async def test_a_server_that_fails_is_a_failure_in_one_line(server, resolver):
    server.failing.add(("a.test.", "A"))

    with pytest.raises(LookupFailedError, match="SERVFAIL") as failed:
        await resolver.look_up("a.test", "A")
    assert "\n" not in str(failed.value)


async def test_a_server_that_does_not_answer_is_a_failure():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        resolver = DnspythonResolver(("127.0.0.1",), mute.getsockname()[1], lifetime_s=0.05)

        with pytest.raises(LookupFailedError, match=r"lifetime expired|timed out"):
            await resolver.look_up("a.test", "A")


async def test_a_truncated_answer_is_asked_for_again_over_tcp(server, resolver):
    server.records["a.test.", "A"] = [f"10.0.{n // 250}.{n % 250 + 1}" for n in range(500)]
    server.truncated.add(("a.test.", "A"))

    assert len((await resolver.look_up("a.test", "A")).records) == 500
    assert server.asked == [("udp", "a.test.", "A"), ("tcp", "a.test.", "A")]


@pytest.mark.parametrize(
    "name, asked",
    [
        ("vllm", ["vllm.default.svc.test.", "vllm.svc.test.", "vllm."]),
        ("vllm.default", ["vllm.default.default.svc.test.", "vllm.default.svc.test."]),
        ("vllm.default.svc.test.", ["vllm.default.svc.test."]),
    ],
)
async def test_the_search_list_of_resolv_conf_is_used(server, monkeypatch, tmp_path, name, asked):
    conf = tmp_path / "resolv.conf"
    conf.write_text("nameserver 127.0.0.1\nsearch default.svc.test svc.test\noptions ndots:5\n")
    server.records["vllm.default.svc.test.", "A"] = ["10.0.0.1"]
    if name == "vllm":
        server.records.clear()

    class Configured(dns.asyncresolver.Resolver):
        def __init__(self, *, configure):
            assert configure
            super().__init__(str(conf))
            self.port = server.port

    monkeypatch.setattr(dns.asyncresolver, "Resolver", Configured)
    found = await DnspythonResolver().look_up(name, "A")

    assert [host for _, host, _ in server.asked] == asked
    assert found.records == (() if name == "vllm" else (Record("10.0.0.1"),))


async def test_a_machine_without_servers_is_a_failure(monkeypatch):
    def unconfigured(**_):
        raise dns.resolver.NoResolverConfiguration("cannot open /etc/resolv.conf")

    monkeypatch.setattr(dns.asyncresolver, "Resolver", unconfigured)

    with pytest.raises(LookupFailedError, match=r"cannot open /etc/resolv\.conf"):
        await DnspythonResolver().look_up("a.test", "A")


async def test_an_error_without_text_is_told_by_its_name(monkeypatch):
    def broken(**_):
        raise OSError

    monkeypatch.setattr(dns.asyncresolver, "Resolver", broken)
    with pytest.raises(LookupFailedError, match=r"^OSError$"):
        await DnspythonResolver().look_up("a.test", "A")
