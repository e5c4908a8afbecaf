"""Locks: one process at a time, and none after its holder has died."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from graph_metanetworks.errors import StorageError
from graph_metanetworks.storage.lock import NAME, locked
from support.processes import forked, in_child, wait_until


def hold(folder: Path) -> None:
    with locked(folder):
        time.sleep(60)


def die(folder: Path) -> None:
    with locked(folder):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[int]:
    """A process that holds the lock of the folder."""
    with forked(lambda: hold(tmp_path)) as child:
        wait_until(lambda: (tmp_path / NAME).is_file() and bool((tmp_path / NAME).read_bytes()), 30)
        yield child.pid


def test_a_folder_is_created_and_released(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    for _ in range(2):
        with locked(folder):
            assert (folder / NAME).read_bytes()
        assert not (folder / NAME).read_bytes()


def test_a_second_holder_is_refused(tmp_path: Path, holder: int) -> None:
    with (
        pytest.raises(StorageError, match=f"in use by process {holder} on .*, since .*to resume"),
        locked(tmp_path),
    ):
        raise AssertionError("two processes hold the lock")


def test_a_holder_that_has_not_signed(tmp_path: Path) -> None:
    with locked(tmp_path):
        os.truncate(tmp_path / NAME, 0)
        with pytest.raises(StorageError, match="in use by another process"), locked(tmp_path):
            raise AssertionError("the lock is held twice")


def test_the_lock_of_a_process_that_died_is_free(tmp_path: Path) -> None:
    assert in_child(lambda: die(tmp_path)) == -signal.SIGKILL
    assert (tmp_path / NAME).read_bytes()  # it still names the process
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write"), locked(tmp_path / "file" / "folder"):
        raise AssertionError("a folder was created in a file")
