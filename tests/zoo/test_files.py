"""Which files of a folder belong to a zoo, and which are left alone."""

from functools import partial
from pathlib import Path

import pytest

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo import build
from support.zoo_folders import contents
from support.zoo_recipes import Regressors

make = partial(build, Regressors(), 10, workers=1, shard_size=4, quiet=True)


def test_a_folder_that_is_no_zoo_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "draft.tmp").write_text("and more")
    with pytest.raises(
        ZooError, match=r"is not empty and not a zoo: it has draft.tmp and 1 more, but no zoo.json"
    ):
        make(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt", "draft.tmp"}


def test_only_temporary_files_of_our_own_are_removed(tmp_path: Path) -> None:
    make(tmp_path)
    theirs, ours = ("draft.tmp", "weights-1.safetensors.tmp"), ("zoo.json.tmp", "table-00003.parquet.tmp")
    for name in (*theirs, *ours):
        (tmp_path / name).touch()
    make(tmp_path)
    assert {path.name for path in tmp_path.glob("*.tmp")} == set(theirs)


def test_a_build_killed_at_its_first_moment_resumes(tmp_path: Path) -> None:
    make(tmp_path / "undisturbed")
    (tmp_path / "zoo").mkdir()
    for name in (".lock", "zoo.json.tmp"):
        (tmp_path / "zoo" / name).touch()
    make(tmp_path / "zoo")
    assert contents(tmp_path / "zoo") == contents(tmp_path / "undisturbed")
