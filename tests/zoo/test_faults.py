"""Real faults during a build: kill -9, a full disk, damaged files, a second process, Ctrl-C."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from time import sleep

import pytest

from graph_metanetworks.errors import StorageError, ZooError
from graph_metanetworks.zoo import Zoo, build
from graph_metanetworks.zoo.check import check
from support.processes import children, finish, forked, in_child, run, started, wait_until
from support.zoo_folders import COUNT, SHARD, contents, make
from support.zoo_recipes import Regressors

make_slowly = partial(build, Regressors(pause=0.03), COUNT, workers=1, shard_size=SHARD, quiet=True)


# kill -9


def test_killed_at_random_moments(undisturbed: Path, tmp_path: Path) -> None:
    randomly = random.Random(0)
    codes = [in_child(lambda: make_slowly(tmp_path), kill_after=randomly.uniform(0, 0.5)) for _ in range(8)]
    assert -signal.SIGKILL in codes
    make(tmp_path)
    assert contents(tmp_path) == contents(undisturbed)


STEPS = ("replace", "fsync", "truncate")  # the system calls of a write


def die_at(step: int) -> None:
    """Kill this process right before its n-th change of the disk."""
    left = [step]

    def dying(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args)

        return counted

    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))


def test_killed_at_every_step_of_every_write(tmp_path: Path) -> None:
    small = partial(build, Regressors(), 12, workers=1, shard_size=8, quiet=True)
    small(tmp_path / "undisturbed")
    codes: list[int] = []
    finished: list[int] = []
    while not codes or codes[-1]:
        folder = tmp_path / f"killed-{len(codes)}"

        def killed(step: int = len(codes) + 1, folder: Path = folder) -> None:
            die_at(step)
            small(folder)

        codes.append(in_child(killed))
        finished.append(check(folder).networks if (folder / "zoo.json").exists() else 0)
        small(folder)
        assert contents(folder) == contents(tmp_path / "undisturbed")
    assert finished == sorted(finished) and len(set(finished)) > 2
    assert codes[-1] == 0 and set(codes[:-1]) == {-signal.SIGKILL}
    assert len(codes) > 15


def test_nothing_finished_is_made_again(zoo: Path, undisturbed: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in zoo.glob("*-0*")}
    make(zoo)
    assert {path.name: path.stat().st_mtime_ns for path in zoo.glob("*-0*")} == before
    assert contents(zoo) == contents(undisturbed)


COMMAND = [sys.executable, "-c", "from graph_metanetworks.cli import main; main()", "zoo", "build"]
RECIPE = f"{Path(__file__).resolve().parents[1] / 'support' / 'zoo_recipes.py'}:Regressors"


def building(folder: Path, *options: str) -> AbstractContextManager[subprocess.Popen[str]]:
    sizes = ("--count", str(COUNT), "--shard-size", str(SHARD))
    return started([*COMMAND, RECIPE, *sizes, "--out", folder, *options])


def wait_for_shards(folder: Path, process: subprocess.Popen[str], shards: int) -> None:
    """Wait until `shards` shards are finished and both workers run."""

    def there() -> bool:
        assert process.poll() is None, process.communicate(timeout=10)
        return len(list(folder.glob("table-*.parquet"))) >= shards and len(children(process.pid)) >= 2

    wait_until(there, 120)


@pytest.mark.slow
def test_the_command_with_workers_killed_at_random_moments(undisturbed: Path, tmp_path: Path) -> None:
    """Its workers die with it, and the same command resumes."""
    randomly = random.Random(1)
    for shards in (0, 1, 3):
        with building(tmp_path, "--workers", "2", "--pause", "0.2") as process:
            wait_for_shards(tmp_path, process, shards)
            sleep(randomly.uniform(0, 0.3))
            workers = children(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            finish(process)
            wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), 30)  # noqa: B023
    with building(tmp_path, "--workers", "2") as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr
    assert {name: c for name, c in contents(tmp_path).items() if name != "zoo.json"} == {
        name: c
        for name, c in contents(undisturbed).items()
        if name != "zoo.json"  # it names the recipe's file
    }


@pytest.mark.slow
def test_ctrl_c(tmp_path: Path) -> None:
    with building(tmp_path, "--workers", "2", "--pause", "0.2") as process:
        wait_for_shards(tmp_path, process, 2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        done = finish(process)
    assert done.returncode == 130, done.stderr
    assert "networks are finished. Rerun the same command" in done.stdout
    assert "Traceback" not in done.stderr
    assert not check(tmp_path).problems


# a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB, too small for a zoo."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield disk
    finally:
        assert run(["umount", disk]).returncode == 0


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount")
def test_a_full_disk(small_disk: Path, undisturbed: Path) -> None:
    with pytest.raises(StorageError, match=r"the disk is full. Finished work is safe: free some space"):
        make(small_disk)
    report = check(small_disk)
    assert 0 < report.networks < COUNT and not report.problems
    assert not list(small_disk.glob("*.tmp"))  # it would keep the disk full
    finished = contents(small_disk)
    assert run(["mount", "-o", "remount,size=10m", small_disk]).returncode == 0
    make(small_disk)
    assert contents(small_disk) == contents(undisturbed)
    assert all(contents(small_disk)[name] == content for name, content in finished.items() if "-0" in name)


@pytest.mark.parametrize("limit", [50, 100, 900, 3000])
def test_files_cannot_grow(limit: int, tmp_path: Path, undisturbed: Path) -> None:
    """As with a quota: whichever file fails, the error is clear and the build can be resumed."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            make(tmp_path / "zoo")
        except StorageError as error:
            assert "the disk is full" in str(error)
            os._exit(7)

    assert in_child(limited) == 7
    make(tmp_path / "zoo")
    assert contents(tmp_path / "zoo") == contents(undisturbed)


# damaged files


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, Path.unlink])
@pytest.mark.parametrize("name", ["weights-00002.safetensors", "table-00005.parquet"])
def test_damage_is_named_and_only_that_is_rebuilt(
    damage: Callable[[Path], None], name: str, zoo: Path, undisturbed: Path
) -> None:
    damage(zoo / name)
    (problem,) = check(zoo).problems
    assert problem.startswith(f"{name}: ")
    with pytest.raises(ZooError, match=name):
        Zoo.open(zoo, verify=True)
    shard = name[-len("00000.parquet") :] if name.endswith("parquet") else name[8:13]
    untouched = {p: p.stat().st_mtime_ns for p in zoo.glob("*-0*") if shard[:5] not in p.name and p.exists()}
    make(zoo)
    assert contents(zoo) == contents(undisturbed)
    assert all(path.stat().st_mtime_ns == time for path, time in untouched.items())
    assert not check(zoo).problems


def test_a_damaged_line_of_the_manifest(zoo: Path, undisturbed: Path) -> None:
    flip_a_bit(zoo / "manifest.jsonl")
    report = check(zoo)
    (problem,) = report.problems
    assert problem.startswith("manifest.jsonl, line ") and report.unfinished > 0
    make(zoo)
    assert contents(zoo) == contents(undisturbed)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"seed": 1}'])
def test_a_damaged_description(content: bytes, zoo: Path) -> None:
    (zoo / "zoo.json").write_bytes(content)
    for use in (Zoo.open, check, make):
        with pytest.raises(ZooError, match=r"zoo.json .*Restore the file"):
            use(zoo)


def test_a_description_that_was_edited(zoo: Path) -> None:
    text = (zoo / "zoo.json").read_text()
    (zoo / "zoo.json").write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(ZooError, match="does not match its checksum"):
        Zoo.open(zoo)


def test_shards_without_a_description(zoo: Path) -> None:
    (zoo / "zoo.json").unlink()
    with pytest.raises(ZooError, match=r"zoo.json is missing"):
        make(zoo)


# two processes


def test_a_second_process_is_refused(tmp_path: Path, undisturbed: Path) -> None:
    with forked(lambda: make_slowly(tmp_path)) as first:
        wait_until((tmp_path / "zoo.json").exists)
        with pytest.raises(StorageError, match=f"is in use by process {first.pid} on "):
            make(tmp_path)
        assert first.wait() == 0
    assert contents(tmp_path) == contents(undisturbed)


def test_a_zoo_is_read_while_it_is_built(zoo: Path) -> None:
    opened = Zoo.open(zoo)
    first = opened[0].state_dict
    with forked(lambda: build(Regressors(pause=0.01), 2 * COUNT, zoo, workers=1, quiet=True)) as process:
        assert len(Zoo.open(zoo)) >= COUNT
        assert all((opened[0].state_dict[name] == first[name]).all() for name in first)
        assert process.wait() == 0
    assert len(opened) == COUNT and len(Zoo.open(zoo)) == 2 * COUNT
