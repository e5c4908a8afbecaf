"""One step of distributed training. A file of its own: each spawned process imports it, and little else."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import graph_metanetworks as gmn
from graph_metanetworks.training.processes import process_group


def share(rank: int, size: int) -> tuple[nn.Module, gmn.Batch]:
    """A metanetwork, and the share of four networks that one of `size` processes has."""
    torch.manual_seed(0)
    net = gmn.GraphMetanetwork(8, 2, vocabulary=gmn.nn.Vocabulary())
    models = [nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)) for _ in range(4)]
    graph = gmn.trace(models[0], torch.zeros(1, 2))
    return net, gmn.collate([(graph, model.state_dict()) for model in models[rank::size]])


def step(rank: int, folder: str, size: int) -> None:
    """Save the gradients of one of `size` processes."""
    torch.set_num_threads(1)
    net, own = share(rank, size)
    with process_group(f"file://{folder}/meeting", rank, size):
        distributed = DistributedDataParallel(net)
        distributed(own).square().mean().backward()
    torch.save([p.grad for p in net.parameters()], f"{folder}/{rank}.pt")
