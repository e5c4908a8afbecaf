"""Processes that train together part without a deadlock, in whatever way they end."""

import gc
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from graph_metanetworks.training.processes import barrier, leave_group, process_group
from support.processes import run_python, spawn


def gloo_threads() -> list[str]:
    """The threads of this process that work for a process group."""
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if "gloo" in name]


def held_in_a_cycle(net: nn.Module) -> None:
    """Keep a network until the garbage is collected, which it is not."""
    gc.disable()
    net.cycle = [net]


def train_and_part(rank: int, folder: str) -> None:
    with process_group(f"file://{folder}/meeting", rank, 2):
        assert gloo_threads()
        net = DistributedDataParallel(nn.Linear(100, 100))
        held_in_a_cycle(net)
        # Threads of the group that want the GIL get it only when this thread waits: they still hold the
        # all-reduce when the group is left. Without `leave_group` the process hangs or is aborted.
        sys.setswitchinterval(1000)
        net(torch.ones(1, 100)).sum().backward()
    assert not gloo_threads()
    assert any(type(found) is DistributedDataParallel for found in gc.get_objects())


@pytest.mark.skipif(sys.platform != "linux", reason="reads the names of threads from /proc")
def test_no_thread_outlives_the_group(tmp_path: Path) -> None:
    spawn(train_and_part, (str(tmp_path),), 2, timeout=60)


def fail_in_one(rank: int, folder: str) -> None:
    with process_group(f"file://{folder}/meeting", rank, 2):
        net = DistributedDataParallel(nn.Linear(100, 100))
        net(torch.ones(1, 100)).sum().backward()
        if rank:
            raise ValueError("a bad batch")
        barrier()  # the other one never comes


@pytest.mark.slow
def test_an_error_in_one_process_ends_all(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"a bad batch|[Cc]onnection closed"):
        spawn(fail_in_one, (str(tmp_path),), 2, timeout=60)


EXITING = """
import os
import sys
import torch
import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel
from graph_metanetworks.training.processes import leave_group_at_exit

import torch._dynamo  # DDP imports it, for seconds

ends = {ends}
children = []
for number, end in enumerate(ends):  # one import of PyTorch serves all
    children.append(os.fork())
    if not children[-1]:
        break
else:
    for child in children:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sys.exit()

leave_group_at_exit()
distributed.init_process_group("gloo", init_method=f"file://{folder}/{{number}}", rank=0, world_size=1)
leave_group_at_exit()  # as the next training does
net = DistributedDataParallel(torch.nn.Linear(100, 100))
sys.setswitchinterval(1000)
net(torch.ones(1, 100)).sum().backward()
exec(end)
"""


@pytest.mark.slow
def test_the_group_is_left_at_exit(tmp_path: Path) -> None:
    codes = {"": 0, "sys.exit(3)": 3, "1 / 0": 1, "raise KeyboardInterrupt": -2}
    done = run_python("-c", EXITING.format(ends=list(codes), folder=tmp_path), timeout=60)
    assert [int(line) for line in done.stdout.splitlines()] == list(codes.values()), done.stderr
    assert "terminate called" not in done.stderr


def test_without_a_group_there_is_nothing_to_wait_for() -> None:
    barrier()
    leave_group()
    assert not distributed.is_initialized()
