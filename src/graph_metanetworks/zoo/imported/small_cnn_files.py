"""The files of the Small CNN Zoo: `weights.npy` [rows, 4970], `metrics.csv.gz`, `layout.csv`.

The metrics have a line for each row of the weights, and the layout gives the position of each TensorFlow
variable within a row. A network has several rows, one for each saved training step.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import torch
from torch import Tensor

from graph_metanetworks.errors import ZooError
from graph_metanetworks.storage import checksum
from graph_metanetworks.zoo.recipe import Trained, metrics_at
from graph_metanetworks.zoo.shard import TrainedNetwork

WEIGHTS, METRICS, LAYOUT = "weights.npy", "metrics.csv.gz", "layout.csv"
VARIABLE = re.compile(r"(?:.*/)?(?P<layer>conv2d|dense)(?:_(?P<number>\d+))?/(?P<kind>kernel|bias)(?::0)?")
MEASURED = ("test_accuracy", "test_loss", "train_accuracy", "train_loss")


@dataclass(frozen=True)
class PublishedConfig:
    """The hyper-parameters, under the names of metrics.csv.gz without `config.`."""

    activation: str
    dataset: str | None = None
    optimizer: str | None = None
    learning_rate: float | None = None
    l2reg: float | None = None
    dropout: float | None = None
    train_fraction: float | None = None
    w_init: str | None = None
    b_init: str | None = None
    init_std: float | None = None
    random_seed: int | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """The position of a TensorFlow variable in a row of the weights, and its name in PyTorch."""

    parameter: str
    shape: tuple[int, ...]
    start: int
    end: int

    def read(self, row: np.ndarray) -> Tensor:
        values = torch.tensor(row[self.start : self.end], dtype=torch.float32).reshape(self.shape)
        return from_tensorflow(values)


def from_tensorflow(values: Tensor) -> Tensor:
    """Transpose kernels, [height, width, in, out] to [out, in, height, width] and [in, out] to [out, in].

    >>> from_tensorflow(torch.zeros(3, 3, 1, 16)).shape, from_tensorflow(torch.zeros(16, 10)).shape
    (torch.Size([16, 1, 3, 3]), torch.Size([10, 16]))
    """
    orders = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}
    return values.permute(orders[values.dim()]).contiguous()


class Published:
    """The published networks of one data set that reached the last step, in the order of the file."""

    def __init__(self, folder: Path, *, all_steps: bool = False) -> None:
        self.folder, self.all_steps = folder, all_steps
        missing = [name for name in (WEIGHTS, METRICS, LAYOUT) if not (folder / name).is_file()]
        if missing:
            raise ZooError(
                f"{folder} has no {', '.join(missing)}. The Small CNN Zoo has one folder per data set, "
                f"such as cifar10, with {WEIGHTS}, {METRICS} and {LAYOUT}. Pass such a folder."
            )
        self._weights = _load_weights(folder / WEIGHTS)
        self._variables = list(_variables(folder / LAYOUT))
        self._metrics = _read_csv(folder / METRICS, ("step", "config.activation", "modeldir"))
        if len(self._weights) != len(self._metrics):
            raise ZooError(
                f"{folder / WEIGHTS} has {len(self._weights):,} rows, but {METRICS} has "
                f"{len(self._metrics):,}: they belong to different data sets, or one of them is truncated."
            )
        steps = self._metrics["step"].to_numpy()
        self._last = np.flatnonzero(steps == steps.max())
        self._steps = np.unique(steps).tolist()
        self._earlier = self._earlier_rows(steps) if all_steps else {}

    def __len__(self) -> int:
        return len(self._last)

    def network(self, index: int) -> TrainedNetwork:
        row = int(self._last[index])
        config = PublishedConfig(
            **{f.name: self._value(f"config.{f.name}", row) for f in fields(PublishedConfig)}
        )
        state = self._state_dict(row)
        earlier = self._earlier.get(self._value("modeldir", row), {})
        metrics = self._measured(row)
        for step, its_row in earlier.items():
            number = self._steps.index(step) + 1
            metrics |= metrics_at(number, len(self._steps), step, self._measured(its_row))
        metrics["diverged"] = not all(bool(values.isfinite().all()) for values in state.values())
        return TrainedNetwork(
            index, config, Trained(state, metrics, {s: self._state_dict(r) for s, r in earlier.items()})
        )

    def provenance(self) -> dict[str, Any]:
        """Return the source and the checksums of the files, to be stored with the zoo."""
        return {
            "source": "Small CNN Zoo (Unterthiner et al., 2020; CC-BY 4.0)",
            "metrics": checksum.of_file(self.folder / METRICS),
            "layout": checksum.of_file(self.folder / LAYOUT),
            "weights": checksum.of_file(self.folder / WEIGHTS),
            "weights_shape": list(self._weights.shape),
            "all_steps": self.all_steps,
        }

    def _earlier_rows(self, steps: np.ndarray) -> dict[str, dict[int, int]]:
        """Return the rows before the last step, by network and step."""
        rows: dict[str, dict[int, int]] = {}
        for row in np.lexsort([steps]):
            if steps[row] < steps.max():
                rows.setdefault(self._value("modeldir", int(row)), {})[int(steps[row])] = int(row)
        return rows

    def _measured(self, row: int) -> dict[str, Any]:
        values = {name: self._value(name, row) for name in MEASURED}
        return {name: value for name, value in values.items() if value is not None}

    def _state_dict(self, row: int) -> dict[str, Tensor]:
        values = self._weights[row]
        return {variable.parameter: variable.read(values) for variable in self._variables}

    def _value(self, column: str, row: int) -> Any:
        return self._metrics[column][row].as_py() if column in self._metrics.column_names else None


def _load_weights(path: Path) -> np.ndarray:
    try:
        weights = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise ZooError(f"{path} cannot be read: {error}") from error
    if weights.ndim != 2:
        raise ZooError(f"{path} must be a matrix with one row per network, but has shape {weights.shape}.")
    return weights


def _read_csv(path: Path, needed: tuple[str, ...]) -> pa.Table:
    try:
        table = csv.read_csv(path)
    except (pa.ArrowException, OSError) as error:
        raise ZooError(f"{path} cannot be read: {error}") from error
    if absent := [name for name in needed if name not in table.column_names]:
        columns = ", ".join(table.column_names)
        raise ZooError(f"{path} has no column {', '.join(absent)}; its columns are {columns}.")
    return table.combine_chunks()


def _variables(path: Path) -> Iterator[Variable]:
    """Return the variables of the layout in order of the layers, weights before biases."""
    found: dict[str, Variable] = {}
    for line in _read_csv(path, ("varname", "shape", "start_idx", "end_idx")).to_pylist():
        match = VARIABLE.fullmatch(line["varname"])
        if not match:
            raise ZooError(f"{path}: the variable {line['varname']} does not belong to a small CNN.")
        kind = "weight" if match["kind"] == "kernel" else "bias"
        layer = f"convolutions.{match['number'] or 0}" if match["layer"] == "conv2d" else "out"
        parameter = f"{layer}.{kind}"
        shape = ast.literal_eval(str(line["shape"]))
        shape = shape if isinstance(shape, tuple) else (shape,)
        found[parameter] = Variable(parameter, shape, line["start_idx"], line["end_idx"])
    order = ["convolutions.0", "convolutions.1", "convolutions.2", "out"]
    names = [f"{layer}.{kind}" for layer in order for kind in ("weight", "bias")]
    if set(names) != set(found):
        raise ZooError(f"{path} lists {', '.join(sorted(found))} instead of {', '.join(names)}.")
    return (found[name] for name in names)
