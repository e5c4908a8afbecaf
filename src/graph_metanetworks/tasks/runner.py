"""Runners: trained models, ready to use on networks, zoos and batches."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.lookup import find_object
from graph_metanetworks.storage.hub import CARD, copy_files, upload
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.model_card import model_card
from graph_metanetworks.tasks.results import Results
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.trace.tracer import trace
from graph_metanetworks.training.run_folder import CURVE, MODEL, PREDICTIONS, REFERENCE, Run
from graph_metanetworks.zoo.zoo import Zoo

if TYPE_CHECKING:
    from graph_metanetworks.tasks.task import Task

LOADER = "graph_metanetworks.tasks.loading:load"
BATCH = 16  # networks that are run together
ACCEPTED = (
    "pass a model and an example input, a zoo or its folder, a list of (graph, state_dict) pairs, or a batch"
)


@dataclass(frozen=True)
class Result:
    """The prediction for one network."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Runner:
    """A trained model, ready to use; `gmn.load(folder)` returns one.

    >>> runner = gmn.load("runs/gmn")             # doctest: +SKIP
    >>> runner(model, example)                    # doctest: +SKIP
    >>> runner("zoos/diverse")                    # doctest: +SKIP
    >>> runner([(graph, model.state_dict())])     # doctest: +SKIP
    """

    options: ClassVar[tuple[str, ...]] = ()  # keyword arguments of `predict`
    usage: ClassVar[str] = "gmn predict {run} CHECKPOINT --network my_model.py:build"

    run: Run
    task: Task[Any]
    model: nn.Module  # in float64, so that permuted networks get the same numbers after rounding
    reference: nn.Module  # further state, from `Task.evaluate`
    folder: Path | None = None  # that it was loaded from

    def __call__(self, networks: Any, *example: Any, quiet: bool = False, **options: Any) -> list[Any]:
        """Return one result per network.

        Args:
            networks: a model, followed by an example input; a `Zoo` or its folder; `(graph, state_dict)`
                pairs; or a batch.
            quiet: hide the progress bar.
        """
        batches = self._shown_batches(networks, example, quiet)
        found = (result for batch in batches for result in self.predict(batch, **options))
        return Results(found, table=self.table)

    @torch.no_grad()
    def embed(self, networks: Any, *example: Any, quiet: bool = False) -> Tensor:
        """Return the representation of each network before the last layer of the model, `[n, d]`.

        >>> runner.embed([(graph, model.state_dict())]).shape     # doctest: +SKIP
        torch.Size([1, 64])

        Arguments as for a call. It is computed in float64 and rounded to float32, so networks that are equal
        up to a symmetry have distance zero, if the method is invariant to it.
        """
        batches = self._shown_batches(networks, example, quiet)
        return torch.cat([embeddings(self.task, self.model, batch) for batch in batches])

    @torch.no_grad()
    def predict(self, batch: Batch) -> list[Any]:
        """Return one result per network of a batch."""
        values = self.outputs(batch)
        rows = values.reshape(len(batch), -1).tolist()
        return [Result(name, tuple(row)) for name, row in zip(batch.names, rows, strict=True)]

    def record(self, result: Any) -> dict[str, Any]:
        """Return the result for a network as plain data, for CSV and JSON."""
        return asdict(result)

    @torch.no_grad()
    def outputs(self, batch: Batch) -> Tensor:
        """Return the model's predictions, computed in float64 and rounded to float32.

        Sums depend on the order of neurons by 1e-15 or so. Rounding removes that: permuted networks get the
        same numbers.
        """
        return predictions(self.task, self.model, batch)

    def table(self, results: Sequence[Any]) -> Table:
        """Return results as a table to print."""
        width = max((len(result.values) for result in results), default=1)
        header = ("network", *(f"output {number}" if width > 1 else "output" for number in range(width)))
        rows = [(result.name, *(f"{value:.4g}" for value in result.values)) for result in results]
        return Table(f"Predictions ({self.task.name})", header, rows, right=header[1:])

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> Self:
        """Load a run from its folder, or from a repository of the Hugging Face hub; see `gmn.load`."""
        return find_object(LOADER)(name, **options)

    def push_to_hub(self, name: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the run to the Hugging Face hub as `user/name`, with a model card; return its address.

        `gmn.load("user/name")` loads it. The path of the zoo on this machine is not uploaded.
        """
        return upload(name, partial(self._stage, name), private=private, token=token)

    def _stage(self, name: str, place: Path) -> None:
        if self.folder is None:
            raise TaskError("this runner was not loaded from a folder, so there are no files to upload.")
        copy_files(self.folder, (MODEL, REFERENCE, PREDICTIONS, CURVE), place)
        known = self.run.zoo | {"folder": Path(str(self.run.zoo["folder"])).name}
        run = replace(self.run, zoo=known)
        run.save(place)
        (place / CARD).write_text(model_card(run, self.task, name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run!r})"

    def _shown_batches(self, networks: Any, example: tuple[Any, ...], quiet: bool) -> Iterable[Batch]:
        """Return the networks in batches, with a progress bar if there are many."""
        batches, count = self._batches(networks, example)
        hidden, console = quiet or count < 4, Console(stderr=True)
        return track(batches, self.task.name, total=count, disable=hidden, transient=True, console=console)

    def _batches(self, networks: Any, example: tuple[Any, ...]) -> tuple[Iterator[Batch], int]:
        """Return the networks in batches, and the number of batches."""
        if isinstance(networks, nn.Module):
            if not example:
                raise TaskError(
                    "a model needs an example input to be traced on, as in "
                    "predictor(model, torch.zeros(1, 3, 32, 32))."
                )
            graph = trace(networks, *example)
            return iter([collate([(graph, networks.state_dict())], names=[graph.name])]), 1
        if example:
            raise TaskError(f"an example input goes with a model, not with a {type(networks).__name__}.")
        if isinstance(networks, Batch):
            return iter([networks]), 1
        if isinstance(networks, str | Path):
            networks = Zoo.open(networks)
        if isinstance(networks, Zoo):
            networks = TracedZoo(networks)
        if isinstance(networks, TracedZoo):
            return _of_zoo(networks)
        if isinstance(networks, Sequence) and all(_is_pair(one) for one in networks):
            starts = range(0, len(networks), BATCH)
            return (collate(networks[start : start + BATCH]) for start in starts), len(starts)
        raise TaskError(f"cannot take an object of type {type(networks).__name__}: {ACCEPTED}.")


def predictions(task: Task[Any], model: nn.Module, batch: Batch) -> Tensor:
    """Run a model in float64 on a batch, and round its predictions to float32."""
    return task.predict(task.forward(model, exactly(batch, model))).float().to(batch.device)


def embeddings(task: Task[Any], model: nn.Module, batch: Batch) -> Tensor:  # [B, d]
    """Embed the networks of a batch in float64, and round to float32."""
    return task.embed(model, exactly(batch, model)).float().to(batch.device)


def exactly(batch: Batch, model: nn.Module) -> Batch:
    """Return a batch in float64, on the device of a model."""
    first = next(chain(model.parameters(), model.buffers()), None)
    return batch.to(batch.device if first is None else first.device, torch.float64)


def _of_zoo(traced: TracedZoo) -> tuple[Iterator[Batch], int]:
    usable = traced.finite.nonzero()[0]
    if len(usable) < len(traced):
        warnings.warn(
            f"left out {len(traced) - len(usable):,} of {len(traced):,} networks: their weights are NaN or "
            "infinite.",
            stacklevel=4,
        )
    starts = range(0, len(usable), BATCH)
    return (traced.batch(usable[start : start + BATCH]) for start in starts), len(starts)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], ParameterGraph)
