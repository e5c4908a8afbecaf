"""The streaming engine: memory for nodes and one piece per worker, whatever the number of parameters."""

from __future__ import annotations

from dataclasses import replace

import torch

from graph_metanetworks.nn.engine.panel import tiles
from graph_metanetworks.nn.engine.workers import Workers
from graph_metanetworks.nn.panel_run import Plan

STREAM = Plan(
    keeps_edges=False,
    stacks_blocks=False,
    list_below=1_000,
    at_once_below=0,
    piece=1 << 19,
    regions=tiles,
    shares=Workers(1),
)


def streaming(workers: int | None = None, progress: bool = False) -> Plan:
    """The plan with one worker per core, or as many as given."""
    return replace(STREAM, shares=Workers(workers or torch.get_num_threads(), progress))
