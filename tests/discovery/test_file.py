"""The file source beside the rules of every source."""

import pytest

from epp.config.endpoint_file import MAX_FILE_BYTES, read_endpoint_file
from epp.discovery.file import FileSource
from epp.discovery.watched_file import WatchedFile
from tests.discovery.kit import Pauses, addresses, running


@pytest.fixture
def path(tmp_path):
    return tmp_path / "endpoints.yaml"


@pytest.fixture
def pauses():
    return Pauses()


def source_of(path, pauses, **options):
    file = WatchedFile(str(path), MAX_FILE_BYTES)
    return FileSource(file, read_endpoint_file, pause=pauses, interval_s=2.0, **options)


async def test_the_file_is_looked_at_each_interval_and_told_of_once(path, pauses):
    path.write_text("[http://a:1]")
    async with running(source_of(path, pauses), pauses) as told:
        for _ in range(3):
            await pauses.next()

        assert told.heard == [("publish", ["a:1"])]
        assert pauses.waited == [2.0, 2.0, 2.0, 2.0]


async def test_every_fault_of_the_file_is_told_in_one_line(path, pauses):
    path.write_text("- http://a:1/v1\n- {url: x}\n- ftp://b\n")
    async with running(source_of(path, pauses), pauses) as told:
        assert told.problem == (
            "endpoints[0] (line 1): the endpoint goes on after the port with '/v1'; give scheme, host and port only, "
            "request paths are kept as clients send them; endpoints[2] (line 3): scheme 'ftp' is not http or https; "
            "write it like http://10.0.0.1:8000 or http://10.0.0.1:8000,zone=a"
        )


async def test_a_faulty_content_is_told_once_not_at_each_look(path, pauses):
    path.write_text("x: 1")
    async with running(source_of(path, pauses), pauses) as told:
        for _ in range(3):
            await pauses.next()

        assert [kind for kind, _ in told.heard] == ["fail"]


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"", "document: is empty; write endpoints: [] to say that there is none"),
        (b"\xff\xfe", "endpoints.yaml is not UTF-8"),
        (b"# " + b"x" * MAX_FILE_BYTES, "endpoints.yaml is larger than 1048576 bytes"),
    ],
)
async def test_what_is_no_list_leaves_the_endpoints(path, pauses, content, problem):
    path.write_text("[http://a:1]")
    async with running(source_of(path, pauses), pauses) as told:
        path.write_bytes(content)
        await pauses.next()
        await pauses.next()

        assert told.problem.endswith(problem)
        assert addresses(told.specs) == ["a:1"]


async def test_an_empty_list_is_a_list(path, pauses):
    path.write_text("endpoints: []")
    async with running(source_of(path, pauses), pauses) as told:
        assert told.specs == ()
        assert told.problem is None


async def test_a_file_that_is_read_once_is_read_until_that_succeeds(path, pauses):
    source = source_of(path, pauses, watch=False)
    assert source.name == f"file {path}, read once"
    async with running(source, pauses) as told:
        assert told.specs is None
    path.write_text("[http://a:1]")
    async with running(source, pauses, ends=True) as told:
        assert addresses(told.specs) == ["a:1"]
