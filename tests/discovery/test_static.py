"""The static source says once what it was given."""

import pytest

from epp.discovery.source import Source
from epp.discovery.static import StaticSource
from epp.endpoints.ledger import Ledger
from epp.endpoints.table import EndpointTable
from tests.discovery.kit import Recorder, addresses


async def test_the_list_is_published_once_and_the_source_ends():
    recorder = Recorder()
    source: Source = StaticSource.parse(["http://10.0.0.1:8000,zone=a", "http://10.0.0.2:8000"])

    await source.run(recorder)

    assert recorder.heard == [("publish", ["10.0.0.1:8000", "10.0.0.2:8000"])]
    assert [dict(s.labels) for s in recorder.specs] == [{"zone": "a"}, {}]


async def test_what_is_published_is_what_the_table_holds():
    table = EndpointTable(Ledger(), lambda _: None, lambda _: True)
    recorder = Recorder()

    await StaticSource.parse(["http://h:2", "http://h:1"]).run(recorder)
    table.sync(recorder.specs, 0.0)

    assert addresses(e.spec for e in table.pool.endpoints) == ["h:2", "h:1"]


def test_malformed_lists_are_refused():
    with pytest.raises(ValueError, match="h:1 is given twice"):
        StaticSource.parse(["http://h:1", "h:1"])
