"""Checksums: any change of a sealed object is noticed."""

from pathlib import Path
from typing import Any

import pytest

from graph_metanetworks.storage import checksum


def test_files_and_bytes_agree(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert checksum.of_file(tmp_path / "file") == checksum.of_bytes(b"content")
    assert checksum.of_bytes(b"content") != checksum.of_bytes(b"Content")


def test_the_order_of_keys_does_not_matter() -> None:
    sealed = checksum.sealed({"seed": 3, "half": False})
    assert checksum.is_intact(dict(reversed(sealed.items())))


@pytest.mark.parametrize(
    "content",
    [
        checksum.sealed({"seed": 3}) | {"seed": 4},
        checksum.sealed({"seed": 3}) | {"half": True},
        {"seed": 3},
        {},
        [],
        None,
    ],
)
def test_changes_are_noticed(content: Any) -> None:
    assert not checksum.is_intact(content)
