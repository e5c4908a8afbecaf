"""Workers of the stream: processes and threads give what one worker gives."""

import multiprocessing
import os
import signal
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.nn import execution
from graph_metanetworks.nn.engine import workers
from graph_metanetworks.nn.engine.sweep import one_worker
from graph_metanetworks.nn.engine.workers import Workers

PLACES = [(number, (slice(number),)) for number in range(50)]
forks = pytest.mark.skipif(sys.platform != "linux", reason="processes start as copies on Linux only")


def work(places):
    """The sum of the panels' numbers, and the process that summed."""
    numbers = [float(number) for number, _ in places]
    return [torch.tensor([sum(numbers)]), None, torch.tensor([float(os.getpid())])]


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_piece_is_taken_once(count, writes):
    found = Workers(count)(work, iter(PLACES), writes=writes)
    (everything, _, _) = one_worker(work, PLACES, writes=writes)[0]
    assert len(found) == count and sum(sums[0] for sums in found) == everything
    assert all(sums[1] is None for sums in found)


@forks
@pytest.mark.parametrize(
    ("writes", "pieces", "count", "others"),
    [(False, 50, 2, 2), (True, 50, 2, 0), (False, 3, 2, 0), (False, 50, 1, 0)],
    ids=["sums", "writes", "too few pieces", "one worker"],
)
def test_processes_are_used_for_sums_of_many_pieces(writes, pieces, count, others):
    found = Workers(count)(work, PLACES[:pieces], writes=writes)
    assert len({int(sums[2]) for sums in found} - {os.getpid()}) == others


@forks
def test_an_error_in_a_process_is_raised_here():
    def fails(places):
        raise ValueError(f"piece {next(iter(places))[0]}")

    with pytest.raises(ValueError, match="piece 0"):
        Workers(2)(fails, PLACES, writes=False)
    assert not multiprocessing.active_children()


@forks
def test_a_process_that_dies_is_noticed():
    def dies(places):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RuntimeError, match=r"died without a result.*workers=1"):
        Workers(2)(dies, PLACES, writes=False)
    assert not multiprocessing.active_children()


@forks
def test_a_process_of_a_loader_makes_none_of_its_own(monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_config", {"daemon": True})
    found = Workers(2)(work, PLACES, writes=False)
    assert {int(sums[2]) for sums in found} == {os.getpid()}


@pytest.mark.parametrize("writes", [True, False])
def test_torch_has_its_threads_back(writes, monkeypatch):
    before = torch.get_num_threads()
    seen = Workers(2)(lambda places: [torch.tensor(torch.get_num_threads())], PLACES, writes=writes)
    assert [sums[0].item() for sums in seen] == [1, 1]
    assert torch.get_num_threads() == before


def test_the_bar_counts_pieces(monkeypatch):
    told = []
    monkeypatch.setattr(workers.Progress, "update", lambda *_, completed: told.append(completed))
    Workers(2, progress=True)(lambda places: [torch.tensor(len(list(places)))], PLACES, writes=True)
    assert told[-1] == len(PLACES)


@pytest.mark.parametrize("level", ["graph", "edge"])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_with_a_worker_for_each_thread(threads, level, monkeypatch):
    """Many small pieces: states and gradients are those of the list of edges."""
    used = []
    monkeypatch.setattr(workers.torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(workers.torch, "set_num_threads", used.append)
    small = replace(execution.BLOCKS, list_below=1, whole_panels_below=0, piece_size=64)
    monkeypatch.setattr(execution, "BLOCKS", small)
    model = nn.Sequential(nn.Linear(9, 20), nn.ReLU(), nn.Linear(20, 7)).double()
    graph = gmn.trace(model, torch.zeros(1, 9).double())
    batch = gmn.collate([(graph, model.state_dict())])
    net = gmn.GraphMetanetwork(8, 2, level=level).double()
    found = {}
    for engine in ("edge_list", "blocks"):
        result = net(batch, engine=engine)
        with torch.no_grad():
            torch.testing.assert_close(net(batch, engine=engine), result)
        parameters = list(net.parameters())
        grads = torch.autograd.grad(result.square().sum(), parameters, materialize_grads=True)
        found[engine] = [result, *grads]
    torch.testing.assert_close(found["blocks"], found["edge_list"])
    assert bool(used) == (threads > 1)
