"""The helpers that start processes for tests: a hanging process is killed, with all its children."""

import multiprocessing
import os
import sys
from pathlib import Path
from time import sleep

import pytest

from support.processes import forked, members, run_python, spawn, started, wait_until

HANGING = """
import subprocess, sys, time
def hang_here():
    time.sleep(1000)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print("started", flush=True)
hang_here()
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_hanging_command_is_killed_and_shows_its_stack() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"hung for 2 s[\s\S]*started[\s\S]*in hang_here"):
        run_python("-c", HANGING, timeout=2)


def test_no_child_of_a_command_outlives_a_failure() -> None:
    with (
        pytest.raises(ZeroDivisionError),
        started([sys.executable, "-c", HANGING]) as process,
    ):
        wait_until(lambda: len(members(process.pid)) == 2)
        _ = 1 / 0
    wait_until(lambda: not members(process.pid), 10)


def test_no_child_of_a_command_outlives_it() -> None:
    with started([sys.executable, "-c", HANGING.replace("hang_here()\n", "")]) as process:
        process.wait(60)
        assert len(members(process.pid)) == 1
    wait_until(lambda: not members(process.pid), 10)


def test_a_fork_ends_with_its_block() -> None:
    with pytest.raises(pytest.fail.Exception, match="hung"), forked(lambda: sleep(1000)) as child:
        child.wait(0.1)
    assert not Path(f"/proc/{child.pid}").exists()
    with forked(lambda: sleep(0)) as child:
        assert child.wait() == 0


def write_and_hang(rank: int, folder: str) -> None:
    Path(folder, str(rank)).write_text(str(os.getpid()))
    sleep(1000)


def test_spawned_processes_are_killed(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="hung"):
        spawn(write_and_hang, (str(tmp_path),), 2, timeout=2)
    pids = [file.read_text() for file in tmp_path.iterdir()]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not multiprocessing.active_children()
