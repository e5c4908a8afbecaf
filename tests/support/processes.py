"""Processes that tests start: each has a time limit, and none outlives the block that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest
import torch.multiprocessing as mp

LIMIT = 240.0  # seconds; less than a test has, so that the process is reported and not only the test
GRACE = 10.0  # seconds that a hanging process has to print its stack
TESTS = Path(__file__).resolve().parents[1]
ENVIRONMENT = {
    "PYTHONPATH": f"{TESTS.parent / 'src'}{os.pathsep}{TESTS}",
    "PYTHONFAULTHANDLER": "1",  # SIGABRT prints the stack of every thread
    "OMP_NUM_THREADS": "1",
}
Command = Sequence[str | Path]


@contextmanager
def started(command: Command, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a session of its own. Afterwards kill whatever is left of it."""
    with subprocess.Popen(
        command,
        env={**os.environ, **ENVIRONMENT, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            _signal_group(process.pid, signal.SIGKILL)


def finish(process: subprocess.Popen[str], timeout: float = LIMIT) -> subprocess.CompletedProcess[str]:
    """Wait until a command and all that hold its output have ended; fail with their stacks if they hang."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _dump_stacks(process.pid)
        _signal_group(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        pytest.fail(f"{process.args} hung for {timeout:g} s.\n{output}\n{errors}", pytrace=False)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def run(
    command: Command, env: Mapping[str, str] | None = None, timeout: float = LIMIT
) -> subprocess.CompletedProcess[str]:
    """Run a command as `subprocess.run` does, in a session of its own, and with a time limit."""
    with started(command, env) as process:
        return finish(process, timeout)


def run_python(*arguments: str | Path, timeout: float = LIMIT) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments."""
    return run([sys.executable, *arguments], timeout=timeout)


def spawn(function: Callable[..., object], args: tuple, count: int, timeout: float = LIMIT) -> None:
    """Call `function(rank, *args)` in `count` new processes, as `torch.multiprocessing.spawn` does.

    They are forked from a server that has imported what takes seconds, and runs nothing.
    """
    mp.set_forkserver_preload(["torch._dynamo"])  # not our package: the server does not know where it is
    context = mp.start_processes(function, args, nprocs=count, join=False, start_method="forkserver")
    assert context is not None
    limit = monotonic() + timeout
    try:
        while not context.join(timeout=1):
            if monotonic() > limit:
                pytest.fail(f"{function.__name__} hung for {timeout:g} s in {count} processes.")
    finally:
        for process in context.processes:
            process.kill()
            process.join()


@dataclass(frozen=True)
class Child:
    """A forked process."""

    pid: int

    def wait(self, timeout: float = LIMIT) -> int:
        """Wait for its end; return its exit code, which is negative for a signal."""
        limit = monotonic() + timeout
        while monotonic() < limit:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            sleep(0.002)
        pytest.fail(f"a forked process hung for {timeout:g} s.")


@contextmanager
def forked(work: Callable[[], object]) -> Iterator[Child]:
    """Do the work in a fork, which exits with 0, or with 1 after an error. Afterwards kill it."""
    pid = os.fork()
    if not pid:
        _work_and_exit(work)
    try:
        yield Child(pid)
    finally:
        _signal_group(pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # it was waited for
            if not os.waitpid(pid, os.WNOHANG)[0]:
                os.kill(pid, signal.SIGKILL)  # it may not have come to lead a group yet
                os.waitpid(pid, 0)


def in_child(work: Callable[[], object], *, kill_after: float | None = None) -> int:
    """Do the work in a fork, and kill it after some seconds if asked to; return its exit code."""
    with forked(work) as child:
        if kill_after is not None:
            sleep(kill_after)
            os.kill(child.pid, signal.SIGKILL)
        return child.wait()


def wait_until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    """Wait until the condition holds; fail if it never does."""
    limit = monotonic() + timeout
    while not condition():
        if monotonic() > limit:
            pytest.fail(f"waited for {timeout:g} s, and the condition never held.")
        sleep(0.01)


def children(parent: int) -> list[int]:
    """Return the running children of a process."""
    return [pid for pid, (state, of, _) in _processes() if of == parent and state != "Z"]


def members(group: int) -> list[int]:
    """Return the running processes of a process group: of a command that was `started`, and its children."""
    return [pid for pid, (state, _, of) in _processes() if of == group and state != "Z"]


def _processes() -> Iterator[tuple[int, tuple[str, int, int]]]:
    """The processes of this machine: state, parent and process group of each."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, group = file.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # it has ended meanwhile
            continue
        yield int(file.parent.name), (state, int(parent), int(group))


def _work_and_exit(work: Callable[[], object]) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _dump_stacks(group: int) -> None:
    """Let the processes of a group print their stacks and end, one after the other.

    They share one stderr: together they would mix their lines.
    """
    for pid in members(group):
        limit = monotonic() + GRACE
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)
        while pid in members(group) and monotonic() < limit:
            sleep(0.01)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)
