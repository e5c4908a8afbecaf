"""Atomic writes: a file is complete or absent, and a full disk is explained."""

import errno
import os
from pathlib import Path

import pytest

from graph_metanetworks.errors import StorageError
from graph_metanetworks.storage.atomic import append_durably, disk_errors, write_durably


def full(*args: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_is_replaced(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        write_durably(tmp_path / "file", content)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]
        assert (tmp_path / "file").read_bytes() == content


def test_a_failed_write_leaves_the_old_file_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_durably(tmp_path / "file", b"first")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StorageError, match=r"the disk is full. Finished work is safe: free some space"):
        write_durably(tmp_path / "file", b"second")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


def test_lines_are_appended_after_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append_durably(path, b"one")
    path.write_bytes(path.read_bytes() + b"to")  # the machine crashed while it wrote a second line
    append_durably(path, b"three")
    assert path.read_bytes() == b"one\nto\nthree\n"


def test_a_failed_append_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append_durably(tmp_path / "lines", b"one")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="rerun the same command to resume"):
        append_durably(tmp_path / "lines", b"two")
    assert (tmp_path / "lines").read_bytes() == b"one\n"


def test_other_errors_are_named(tmp_path: Path) -> None:
    path = tmp_path / "no" / "such" / "folder"
    with pytest.raises(StorageError, match=r"No such file or directory.*fix that"), disk_errors(path):
        path.touch()
