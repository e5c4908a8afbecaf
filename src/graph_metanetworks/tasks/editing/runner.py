"""A trained editor of INRs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.editing.data import Canvas
from graph_metanetworks.tasks.editing.render import render_batch
from graph_metanetworks.tasks.runner import Runner, exactly
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.zoo.zoo import Zoo

StateDict = dict[str, Tensor]


class Pictures(NamedTuple):
    """Images of the networks of a batch, `[B, channels, height, width]`, brightness from 0 to 1."""

    original: Tensor  # what they render
    edited: Tensor  # what they render with new weights
    target: Tensor  # the edited original
    identity: Tensor  # mean squared error of the network as it is, in the values of its data [B]
    error: Tensor  # that of the edited one


@dataclass(frozen=True, eq=False, repr=False)
class EditRunner(Runner):
    """A trained editor: networks in, state dicts of the edited networks out.

    >>> editor = gmn.load("runs/dilate")                    # doctest: +SKIP
    >>> edited = editor([(graph, inr.state_dict())])        # doctest: +SKIP
    >>> inr.load_state_dict(edited[0])                      # doctest: +SKIP
    """

    usage = "gmn edit {run} inr.safetensors --out edited.safetensors --picture edited.png"

    @cached_property
    def canvas(self) -> Canvas:
        """Where networks are rendered, as the zoo of the run says."""
        return Canvas.of_zoo(self.run.zoo)

    def __call__(self, networks: Any, *example: Any, quiet: bool = False, **options: Any) -> list[StateDict]:
        """Return the state dict of each edited network; arguments as for other runs."""
        zoo = Zoo.open(networks) if isinstance(networks, str | Path) else networks
        if isinstance(zoo, Zoo | TracedZoo):
            self.require_same_conventions(zoo.zoo if isinstance(zoo, TracedZoo) else zoo)
        return super().__call__(zoo, *example, quiet=quiet, **options)

    def require_same_conventions(self, zoo: Zoo) -> None:
        """Refuse a zoo whose networks mean other images than those of the training zoo."""
        other = Canvas.of(zoo.recipe, zoo.description.recipe)
        self.canvas.require_same(other, str(zoo.folder))

    @torch.no_grad()
    def edit(self, batch: Batch) -> Batch:
        """Return the edited networks as a batch, computed in float64."""
        self.canvas.require_maps(batch)
        return self.model(exactly(batch, self.model)).to(batch.device)

    def predict(self, batch: Batch) -> list[StateDict]:
        return unstacked(self.edit(batch))

    @torch.no_grad()
    def pictures(self, batch: Batch, edited: Batch | None = None, targets: Tensor | None = None) -> Pictures:
        """Render networks before and after an edit, and show their targets.

        By default the edit is that of this run, and targets are made from what the networks render.
        """
        canvas = self.canvas
        before = render_batch(batch, canvas.coordinates)
        after = render_batch(edited or self.edit(batch), canvas.coordinates)
        target = canvas.edited(before, self.task.options.edit) if targets is None else targets.to(before)
        images = (canvas.images(values.float()) for values in (before, after, target))
        return Pictures(*images, *((own - target).square().mean((1, 2)) for own in (before, after)))

    def table(self, results: Sequence[StateDict]) -> Table:
        rows = [
            (str(number), f"{len(one):,}", f"{sum(value.numel() for value in one.values()):,}")
            for number, one in enumerate(results)
        ]
        header = ("network", "tensors", "weights")
        return Table("Edited networks", header, rows, right=header[1:])


def unstacked(batch: Batch) -> list[StateDict]:
    """Return a state dict for each network of a batch, in the precision of its parameters."""
    found: list[StateDict] = [{}] * len(batch)
    for stack in batch.stacks:
        dtypes = {n: p.dtype for p in stack.graph.parameters for n in (p.name, *p.tied)}
        weights = {name: value.to(dtypes[name]) for name, value in stack.named_weights().items()}
        for number, member in enumerate(stack.members):
            found[member] = {name: value[number].clone() for name, value in weights.items()}
    return found
