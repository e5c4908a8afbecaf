"""A manifest that was lost or truncated: intact shards are kept, the others are made again."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from graph_metanetworks.zoo.check import check
from support.zoo_folders import contents, make


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def exchange(path: Path) -> None:
    """Replace the file by that of another shard."""
    other = "00006" if path.name.startswith("table") else "00007"  # of another size
    shutil.copy(path.with_name(path.name.replace("00003", other)), path)


def cut(lines: int) -> Callable[[Path], None]:
    """Truncate the manifest after some lines."""

    def damage(path: Path) -> None:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))

    return damage


def modified(zoo: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in zoo.glob("*-0*")}


@pytest.mark.parametrize("damage", [Path.unlink, cut(0), cut(2)])
def test_a_manifest_that_was_lost_or_cut_costs_nothing(
    damage: Callable[[Path], None], zoo: Path, undisturbed: Path
) -> None:
    before = modified(zoo)
    damage(zoo / "manifest.jsonl")
    report = check(zoo)
    assert report.problems and report.unclaimed and report.unfinished
    assert any("table-00007.parquet" in problem for problem in report.problems)
    make(zoo)
    assert contents(zoo) == contents(undisturbed)
    assert modified(zoo) == before  # nothing was trained again


def test_dropped_networks_and_a_lost_manifest(tmp_path: Path) -> None:
    make(tmp_path, drop_diverged=True)
    before, files = modified(tmp_path), contents(tmp_path)
    (tmp_path / "manifest.jsonl").unlink()
    make(tmp_path, drop_diverged=True)
    assert modified(tmp_path) == before and contents(tmp_path) == files


def test_one_shard_without_a_line_is_what_a_stopped_build_leaves(zoo: Path) -> None:
    cut(7)(zoo / "manifest.jsonl")
    report = check(zoo)
    assert not report.problems
    assert report.unclaimed == ("table-00007.parquet", "weights-00007.safetensors")


@pytest.mark.parametrize("name", ["weights-00003.safetensors", "table-00003.parquet"])
@pytest.mark.parametrize("damage", [truncate, Path.unlink, exchange])
def test_a_shard_without_a_line_that_is_not_whole_is_made_again(
    name: str, damage: Callable[[Path], None], zoo: Path, undisturbed: Path
) -> None:
    before = modified(zoo)
    (zoo / "manifest.jsonl").unlink()
    damage(zoo / name)
    make(zoo)
    assert contents(zoo) == contents(undisturbed)
    made = {file for file, time in modified(zoo).items() if before[file] != time}
    assert made == {"weights-00003.safetensors", "table-00003.parquet"}
