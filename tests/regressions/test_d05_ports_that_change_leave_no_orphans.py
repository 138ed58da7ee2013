"""D05 (GIE p2308, p2578): a port change left orphans, and a set that became nothing in between crashed."""

import pytest

from epp.config.endpoint_file import MAX_FILE_BYTES, read_endpoint_file
from epp.discovery.file import FileSource
from epp.discovery.watched_file import WatchedFile
from tests.director.core import Pool
from tests.discovery.kit import Pauses, running

HOSTS = ("10.0.0.1", "10.0.0.2")


def text(ports):
    return "\n".join(["endpoints:", *(f"- http://{host}:{port}" for host in HOSTS for port in ports)])


@pytest.mark.parametrize("nothing", ["", "endpoints:\n", "null", "endpoints: {"])
async def test_the_set_is_always_hosts_times_ports(tmp_path, nothing):
    path, pauses, pool = tmp_path / "e.yaml", Pauses(), Pool(n=0)
    source = FileSource(
        WatchedFile(str(path), MAX_FILE_BYTES), read_endpoint_file, pause=pauses, interval_s=1.0
    )

    def held():
        pool.core.upkeep.sync_endpoints(told.specs, 1.0)
        return sorted(e.address for e in pool.core.table.pool.endpoints)

    async def put(content):
        (tmp_path / "next").write_text(content)
        (tmp_path / "next").rename(path)
        await pauses.next()

    path.write_text(text([8000, 8001]))
    async with running(source, pauses) as told:
        assert held() == ["10.0.0.1:8000", "10.0.0.1:8001", "10.0.0.2:8000", "10.0.0.2:8001"]
        await put(text([8000]))
        assert held() == ["10.0.0.1:8000", "10.0.0.2:8000"]
        await put(nothing)
        assert held() == ["10.0.0.1:8000", "10.0.0.2:8000"]
        await put(text([8000]))
        assert held() == ["10.0.0.1:8000", "10.0.0.2:8000"]
        assert told.problem is None
