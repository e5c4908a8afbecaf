"""CPU time of a training step of the task `editing`, and the share that renders the edited networks.

    python benchmarks/editing.py                                  # methods gmn, nfn-hnp and nft
    python benchmarks/editing.py --methods gmn --repeats 30
    python benchmarks/editing.py --markdown

32 SIRENs 2-32-32-1 are edited and rendered at 28 x 28 points, with one thread. A step is editing, rendering,
the loss, its gradients and AdamW. Rendering is rendering, the loss, and its gradients of the edited weights.
Both take turns; times are the lowest of the repeats, because other processes only add to them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from networks import sirens
from zoo_inrs import show

from graph_metanetworks.allocator import keep_freed_memory
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.methods.method import Output, as_metanetwork, count_parameters
from graph_metanetworks.tasks.editing.data import Images
from graph_metanetworks.tasks.editing.task import Editing, Options
from graph_metanetworks.zoo.inr import EDITING, make_grid

HEADER = ["method", "parameters", "step", "rendering", "share"]


def with_gradients(batch: Batch) -> Batch:
    """Return a batch whose weights are leaves that record gradients."""
    stacks = (
        replace(stack, weights={name: w.detach().requires_grad_() for name, w in stack.weights.items()})
        for stack in batch.stacks
    )
    return replace(batch, stacks=tuple(stacks))


def row(method: str, repeats: int) -> list[str]:
    torch.manual_seed(0)
    task, batch = Editing(Options(method=method)), sirens(32, outputs=1)
    model = task.make_model(Output(level="edge"))
    as_metanetwork(model).fit([batch])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    coordinates = make_grid(EDITING, 28).coordinates
    targets = Images(torch.rand(32, 1, 784), coordinates)
    edited = with_gradients(model(batch))

    def step() -> None:
        optimizer.zero_grad()
        task.loss(model(batch), targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def rendering() -> None:
        task.loss(edited, targets).backward()

    times = [(milliseconds(step), milliseconds(rendering)) for _ in range(repeats + 2)][2:]
    whole, part = (min(column) for column in zip(*times, strict=True))
    size = f"{count_parameters(model):,}"
    return [method, size, f"{whole:.1f} ms", f"{part:.1f} ms", f"{part / whole:.1%}"]


def milliseconds(function: Callable[[], None]) -> float:
    start = time.process_time()
    function()
    return 1000 * (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", default="gmn,nfn-hnp,nft", help="with commas between them")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    rows = [row(method, arguments.repeats) for method in arguments.methods.split(",")]
    show(HEADER, rows, arguments.markdown)


if __name__ == "__main__":
    main()
