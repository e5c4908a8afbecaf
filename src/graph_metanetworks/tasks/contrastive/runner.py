"""A trained encoder: embeddings, and the columns that a linear regression reads off them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.runner import Result, Runner, embeddings


class Encoder(Runner):
    """A trained encoder, ready to use.

    `embed` gives embeddings, before the projector. A call gives the columns that the run was evaluated on,
    such as amplitude and frequency, by linear regression from embeddings; embeddings if there are none.

    >>> encoder = gmn.load("runs/sine")                   # doctest: +SKIP
    >>> encoder.embed("zoos/sine").shape                  # doctest: +SKIP
    torch.Size([10000, 16])
    >>> encoder(siren, torch.zeros(1, 1))                 # doctest: +SKIP
    [Result(name='Siren', values=(4.9, 2.1))]
    """

    def outputs(self, batch: Batch) -> Tensor:
        found = embeddings(self.task, self.model, batch)
        if not self.task.options.column_names:
            return found
        return self.reference(found).float().to(batch.device)

    def record(self, result: Result) -> dict[str, Any]:
        names = self.task.options.column_names
        return (
            {"name": result.name, **dict(zip(names, result.values, strict=True))}
            if names
            else super().record(result)
        )

    def table(self, results: Sequence[Result]) -> Table:
        names = self.task.options.column_names
        if not names:
            return super().table(results)
        rows = [(result.name, *(f"{value:.4g}" for value in result.values)) for result in results]
        return Table("Predicted from embeddings", ("network", *names), rows, right=names)
