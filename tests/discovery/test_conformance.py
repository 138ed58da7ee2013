"""Every source keeps the rules of `conformance`."""

import contextlib

import pytest

from epp.config.endpoint_file import MAX_FILE_BYTES, read_endpoint_file
from epp.discovery.dns import DnsSource
from epp.discovery.dnspython_resolver import DnspythonResolver
from epp.discovery.file import FileSource
from epp.discovery.static import StaticSource
from epp.discovery.watched_file import WatchedFile
from epp.endpoints.dns_name import parse_dns_name
from epp.endpoints.spec import parse_endpoint
from tests.discovery.conformance import OF_ALL, OF_THOSE_THAT_FOLLOW
from tests.discovery.dns_server import dns_server
from tests.discovery.kit import FakeResolver, Pauses


class StaticRig:
    """The list is given before the source is made."""

    follows, labels = False, {"zone": "a"}

    def __init__(self):
        self.pauses = Pauses()

    async def offer(self, *addresses):
        self.source = StaticSource.parse([f"http://{address},zone=a" for address in addresses])


class FileRig:
    """A file that another one is renamed over."""

    follows, labels = True, {"zone": "a"}

    def __init__(self, folder):
        self.folder, self.pauses = folder, Pauses()
        file = WatchedFile(str(folder / "endpoints.yaml"), MAX_FILE_BYTES)
        self.source = FileSource(file, read_endpoint_file, pause=self.pauses, interval_s=1.0)

    def write(self, text):
        (self.folder / "next").write_text(text)
        (self.folder / "next").rename(self.folder / "endpoints.yaml")

    async def offer(self, *addresses):
        self.write("".join(f"- http://{address},zone=a\n" for address in addresses))

    async def spoil(self):
        self.write("- http://10.0.0.1:8000/v1\n")


class GoFileRig(FileRig):
    """The Go picker's format."""

    async def offer(self, *addresses):
        items = [parse_endpoint(address) for address in addresses]
        lines = [
            f'- {{name: "e-{s.host}", address: "{s.host}", port: "{s.port}", labels: {{zone: a}}}}'
            for s in items
        ]
        self.write("\n".join(["endpoints:", *lines]))


class ConfigMapRig(FileRig):
    """A mounted ConfigMap: `endpoints.yaml` → `..data/endpoints.yaml`, and `..data` is swapped."""

    def __init__(self, folder):
        super().__init__(folder)
        (folder / "endpoints.yaml").symlink_to("..data/endpoints.yaml")
        self.version = 0

    def write(self, text):
        self.version += 1
        version = self.folder / f"..v{self.version}"
        version.mkdir()
        (version / "endpoints.yaml").write_text(text)
        (self.folder / "..next").symlink_to(version.name)
        (self.folder / "..next").rename(self.folder / "..data")


class InPlaceRig(FileRig):
    """A file that is written over: it counts when two looks saw the same, or when somebody says so."""

    def __init__(self, folder):
        super().__init__(folder)
        go_on = self.pauses.next

        async def go_on_twice(*, rung=False):
            await go_on(rung=rung)
            if not rung:
                await go_on()

        self.pauses.next = go_on_twice

    def write(self, text):
        (self.folder / "endpoints.yaml").write_text(text)


def by_family(addresses):
    specs = [parse_endpoint(address) for address in addresses]
    return {kind: [s.host for s in specs if (":" in s.host) is (kind == "AAAA")] for kind in ("A", "AAAA")}


class FakeDnsRig:
    """A and AAAA records of one name, without a network."""

    follows, labels = True, {"zone": "a"}
    name = "http://vllm.internal:8000,zone=a"

    def __init__(self):
        self.pauses, self.resolver = Pauses(), FakeResolver(ttl_s=30.0)
        self.source = DnsSource(parse_dns_name(self.name), self.resolver, pause=self.pauses)

    async def offer(self, *addresses):
        self.resolver.records = {("vllm.internal", k): v for k, v in by_family(addresses).items()}

    async def spoil(self):
        self.resolver.records = {("vllm.internal", kind): "SERVFAIL" for kind in ("A", "AAAA")}


class FakeSrvRig(FakeDnsRig):
    """SRV records, one target an endpoint."""

    name = "srv+http://_http._tcp.vllm.internal,zone=a"
    service = ("_http._tcp.vllm.internal", "SRV")

    async def offer(self, *addresses):
        specs = [parse_endpoint(address) for address in addresses]
        targets = [(spec, f"pod-{spec.host.replace(':', '-')}.vllm.internal") for spec in specs]
        self.resolver.records = {self.service: [(target, spec.port) for spec, target in targets]}
        for spec, target in targets:
            self.resolver.records |= {(f"{target}.", k): v for k, v in by_family([spec.address]).items()}

    async def spoil(self):
        self.resolver.records = {self.service: "timed out"}


class RealDnsRig:
    """The same over UDP."""

    follows, labels = True, {"zone": "a"}
    name = "http://vllm.internal:8000,zone=a"

    def __init__(self, server):
        self.server, self.pauses = server, Pauses()
        resolver = DnspythonResolver(("127.0.0.1",), server.port, lifetime_s=2.0)
        self.source = DnsSource(parse_dns_name(self.name), resolver, pause=self.pauses)

    async def offer(self, *addresses):
        self.server.failing.clear()
        self.server.records = {
            ("vllm.internal.", kind): hosts for kind, hosts in by_family(addresses).items() if hosts
        }

    async def spoil(self):
        self.server.failing = {("vllm.internal.", kind) for kind in ("A", "AAAA")}


class RealSrvRig(RealDnsRig):
    """SRV records over UDP."""

    name = "srv+http://_http._tcp.vllm.internal,zone=a"
    service = ("_http._tcp.vllm.internal.", "SRV")

    async def offer(self, *addresses):
        self.server.failing.clear()
        specs = [parse_endpoint(address) for address in addresses]
        targets = [(spec, f"pod-{spec.host.replace(':', '-')}.vllm.internal.") for spec in specs]
        self.server.records = {self.service: [f"0 1 {spec.port} {target}" for spec, target in targets]}
        for spec, target in targets:
            kind = "AAAA" if ":" in spec.host else "A"
            self.server.records[target, kind] = [spec.host]

    async def spoil(self):
        self.server.failing = {self.service}


@contextlib.asynccontextmanager
async def rig_of(kind, folder):
    if kind in (RealDnsRig, RealSrvRig):
        async with dns_server() as server:
            yield kind(server)
    else:
        yield kind(folder) if issubclass(kind, FileRig) else kind()


FOLLOWING = (FileRig, GoFileRig, ConfigMapRig, InPlaceRig, FakeDnsRig, FakeSrvRig, RealDnsRig, RealSrvRig)


@pytest.mark.parametrize("rule", OF_ALL)
@pytest.mark.parametrize("kind", (StaticRig, *FOLLOWING))
async def test_every_source(kind, rule, tmp_path):
    async with rig_of(kind, tmp_path) as rig:
        await rule(rig)


@pytest.mark.parametrize("rule", OF_THOSE_THAT_FOLLOW)
@pytest.mark.parametrize("kind", FOLLOWING)
async def test_every_source_that_follows(kind, rule, tmp_path):
    async with rig_of(kind, tmp_path) as rig:
        await rule(rig)
