"""When another content of a file counts."""

import os

import pytest

from epp.discovery.watched_file import FileProblemError, WatchedFile, take_snapshot


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "file"
    file.write_text("one")
    return file


@pytest.fixture
def file(path):
    return WatchedFile(str(path), 100)


def replace(path, text):
    other = path.with_name("other")
    other.write_text(text)
    other.rename(path)


async def test_each_content_is_told_once(path, file):
    assert await file.look() == b"one"
    assert await file.look() is None
    replace(path, "two")

    assert await file.look() == b"two"
    assert await file.look() is None


async def test_what_is_written_in_place_counts_when_two_looks_saw_the_same(path, file):
    await file.look()
    path.write_text("tw")
    assert await file.look() is None
    path.write_text("two")
    assert await file.look() is None

    assert await file.look() == b"two"


async def test_what_is_written_in_place_counts_at_once_on_demand(path, file):
    await file.look()
    path.write_text("two")

    assert await file.look(at_once=True) == b"two"
    assert await file.look() is None


async def test_another_file_with_the_same_content_is_nothing_new(path, file):
    await file.look()
    replace(path, "one")

    assert await file.look() is None


async def test_a_file_that_was_touched_without_change_is_nothing_new(path, file):
    await file.look()
    os.utime(path, (1, 1))

    assert [await file.look() for _ in range(3)] == [None, None, None]


async def test_a_calm_file_is_not_read_again(path):
    read = []

    def snapshot(name, max_bytes, known):
        found = take_snapshot(name, max_bytes, known)
        read.append(found is not known)
        return found

    file = WatchedFile(str(path), 100, snapshot)
    for _ in range(4):
        await file.look()

    assert read == [True, True, False, False]


async def test_what_is_written_within_a_tick_of_the_first_look_is_seen(path, file):
    """Time stamps are coarse: the file is read until two looks agree."""
    stamp = path.stat().st_mtime_ns
    await file.look()
    path.write_text("two")
    os.utime(path, ns=(stamp, stamp))
    await file.look()

    assert await file.look() == b"two"


async def test_a_file_that_is_gone_is_a_problem_and_told_again_when_it_is_back(path, file):
    await file.look()
    path.rename(path.with_name("away"))
    for _ in range(2):
        with pytest.raises(FileProblemError, match=r"file cannot be read: No such file or directory$"):
            await file.look()
    path.with_name("away").rename(path)

    assert await file.look() == b"one"


async def test_what_is_forgotten_is_told_again(file):
    await file.look()
    file.forget()

    assert await file.look() == b"one"


async def test_a_file_may_be_as_large_as_the_limit_and_no_larger(path, file):
    path.write_bytes(b"x" * 100)
    assert len(await file.look()) == 100
    replace(path, "x" * 101)

    with pytest.raises(FileProblemError, match="is larger than 100 bytes"):
        await file.look()


async def test_a_folder_and_a_pipe_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(FileProblemError, match="pipe is not a regular file"):
        await WatchedFile(str(tmp_path / "pipe"), 100).look()
    with pytest.raises(FileProblemError, match=r"is not a regular file|Is a directory"):
        await WatchedFile(str(tmp_path), 100).look()
